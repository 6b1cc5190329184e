"""Explains why a broker can't start, in a sentence that says what to do. The operating system reports only a number."""

from __future__ import annotations

import errno
import os
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from klamm.errors import KlammError

__all__ = ["StartFailed", "address_failure", "directory_failure"]

_ELSEWHERE: Final = "choose another folder (--data-dir, log.dirs)"
_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_TOO_MANY_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE})
_LISTENING: Final = "--listen HOST:PORT picks another, port 0 a free one"


class StartFailed(KlammError):
    """Raised if the broker can't start because of the disk, the data folder or the address."""


def directory_failure(error: Exception, directory: Path) -> StartFailed | None:
    """Returns the failure of a start in the data directory; None if `error` needs no better explanation."""
    for cause in _causes(error):
        if isinstance(cause, sqlite3.Error) and getattr(cause, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            return _no_space(directory)
        if isinstance(cause, OSError) and cause.errno in _NO_SPACE:
            return _no_space(directory)
    return StartFailed(_sentence(error, directory)) if isinstance(error, OSError) else None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _no_space(directory: Path) -> StartFailed:
    return StartFailed(f"no space is left on the disk of {directory}: make room there, or {_ELSEWHERE}")


def _sentence(error: OSError, directory: Path) -> str:
    path = error.filename if isinstance(error.filename, str) else str(directory)
    if error.errno == errno.EROFS:
        return f"{directory} is on a disk that is mounted read-only: mount it for writing, or {_ELSEWHERE}"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"{path} may not be used by the user {_user()}: give it to that user (chown), or {_ELSEWHERE}"
    if error.errno in (errno.EEXIST, errno.ENOTDIR):
        return (
            f"{_not_a_folder(directory)} is a file, and the data directory {directory} has to be a folder: {_ELSEWHERE}"
        )
    if error.errno in _TOO_MANY_FILES:
        return "too many files are open: allow the process more of them (ulimit -n, LimitNOFILE)"
    return f"the data directory {directory} can't be used: {error.strerror} ({path})"


def _user() -> str:
    import getpass  # a broker that starts does not need it

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _not_a_folder(directory: Path) -> Path:
    """Returns the part of the path that is not a directory."""
    return next((each for each in (directory, *directory.parents) if each.exists() and not each.is_dir()), directory)


def address_failure(error: OSError, host: str, port: int) -> StartFailed:
    """Returns the failure of a broker that can't listen."""
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if isinstance(error, socket.gaierror):
        return StartFailed(f"the host name of {address} is not known here ({error.strerror}); {_LISTENING}")
    if error.errno == errno.EADDRINUSE:
        return StartFailed(f"{address} is in use; {_LISTENING}")
    if error.errno == errno.EADDRNOTAVAIL:
        return StartFailed(
            f"{host} is not an address of this machine, so no broker can listen at {address}: listen at one that is, "
            f"or at 0.0.0.0 for all of them, and name the other in advertised.listeners"
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return StartFailed(f"the user {_user()} may not listen at {address}: take a port from 1024 on; {_LISTENING}")
    if error.errno in _TOO_MANY_FILES:
        return StartFailed("too many files are open: allow the process more of them (ulimit -n, LimitNOFILE)")
    return StartFailed(f"no broker can listen at {address}: {error.strerror}; {_LISTENING}")
