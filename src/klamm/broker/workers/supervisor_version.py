"""Refuses a worker of another version of klamm than its supervisor: an upgrade while the command runs.

A worker that dies is started again from what is installed then. Workers and supervisor exchange frames without a
version (`store_frames`), and a later version may write metadata that the others do not understand.
"""

from __future__ import annotations

from typing import Final

from klamm._version import __version__

__all__ = ["OTHER_VERSION_STATUS", "VERSION_OPTION", "other_version"]

OTHER_VERSION_STATUS: Final = 3
"""The exit status of a worker that is of another version than its supervisor. No other end of a worker has it."""

VERSION_OPTION: Final = "--supervisor-version"
"""The option with the supervisor's version. All versions must know it."""


def other_version(supervisor: str | None) -> str | None:
    """Returns why a worker of this program must not run beside a supervisor of that version, None if it may.

    A supervisor that gives no version (None) is of an earlier one.
    """
    if supervisor == __version__:
        return None
    name = "an earlier version" if supervisor is None else f"klamm {supervisor}"
    return f"this is klamm {__version__}, and its supervisor is {name}: stop the command, and start it again"
