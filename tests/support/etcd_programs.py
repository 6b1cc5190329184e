"""Provides programs of etcd for tests: Debian's package, and a current release from its Go module.

Both are kept in `.cache/etcd`. Neither needs root: the package is unpacked and not installed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.support.toolchains import toolchain_is_missing

__all__ = ["etcd_program"]

_CACHE: Final = Path(__file__).parents[2] / ".cache" / "etcd"
_MODULE: Final = Path(__file__).parent / "etcd_module"
_BUILD_TIMEOUT_S: Final = 1800


def etcd_program() -> Path:
    """Returns the program of Debian's package etcd-server, or another one on PATH; with KLAMM_TEST_ETCD=current a
    current release, which Go builds. Skips the test if there is none.
    """
    if os.environ.get("KLAMM_TEST_ETCD") == "current":
        return _cached("current", _build, "a current etcd is missing: install Go")
    return _cached("debian", _unpack, "etcd is missing: apt-get install etcd-server")


def _cached(name: str, make: Callable[[Path], Path | None], message: str) -> Path:
    folder = _CACHE / name
    folder.mkdir(parents=True, exist_ok=True)
    # Several test processes start at the same time.
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        program = folder / "etcd"
        if program.exists():
            return program
        made = make(folder)
    if made is None:
        toolchain_is_missing("etcd", message)
    return made


def _unpack(folder: Path) -> Path | None:
    installed = shutil.which("etcd")
    if installed is not None:
        return Path(installed)
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        return None
    if not _download(folder, []):
        # The lists of packages may be missing or old. Without root they go to a folder of their own.
        state = folder / "apt"
        for each in ("lists/partial", "cache/archives/partial"):
            (state / each).mkdir(parents=True, exist_ok=True)
        options = [f"-oDir::State::lists={state}/lists", f"-oDir::Cache={state}/cache"]
        if not (_run(["apt-get", *options, "update"], folder) and _download(folder, options)):
            return None
    package = max(folder.glob("etcd-server_*.deb"))
    if not _run(["dpkg", "-x", str(package), "unpacked"], folder):
        return None
    os.replace(folder / "unpacked/usr/bin/etcd", folder / "etcd")
    return folder / "etcd"


def _download(folder: Path, options: list[str]) -> bool:
    return _run(["apt-get", *options, "download", "etcd-server"], folder)


def _build(folder: Path) -> Path | None:
    if shutil.which("go") is None or not _run(["go", "build", "-o", str(folder / "built"), "."], _MODULE):
        return None
    os.replace(folder / "built", folder / "etcd")
    return folder / "etcd"


def _run(command: list[str], folder: Path) -> bool:
    return not subprocess.run(
        command, cwd=folder, capture_output=True, check=False, timeout=_BUILD_TIMEOUT_S
    ).returncode
