"""JVMs that end with their test: they spend most of their time on starting, and what can be had ready-made is.

What is prepared lies in the folder for temporary files and serves later runs too: the class path that Maven took
seconds to say, the compiled drivers, and archives of the classes that were loaded (class-data sharing), with which a
start costs half.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from tests.support.alone import alone

__all__ = ["QUICK_START", "prepared", "remembered_classpath", "start_command"]

QUICK_START: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""For a process that ends before a better compiled one would be faster."""

_ARCHIVE: Final = "classes.jsa"


def prepared(name: str, parts: Iterable[str | bytes], prepare: Callable[[Path], None]) -> Path:
    """A folder that `prepare` has filled once for these `parts`, of which it consists, and for the Java on PATH."""
    digest = hashlib.sha256(os.path.realpath(shutil.which("java") or "java").encode())
    for part in parts:
        digest.update(b"\0" + (part.encode() if isinstance(part, str) else part))
    folder = Path(tempfile.gettempdir()) / f"klamm-tests-{name}-{digest.hexdigest()[:16]}"
    with alone(name):
        if not folder.is_dir():
            being_made = Path(tempfile.mkdtemp(prefix=f"{folder.name}-"))
            try:
                prepare(being_made)
                being_made.rename(folder)
            finally:
                shutil.rmtree(being_made, ignore_errors=True)
    return folder


def remembered_classpath(pom: Path, ask_maven: Callable[[Path], None]) -> str:
    """The class path of a pom.xml, which `ask_maven` writes into a file where it isn't known, or jars are gone."""
    digest = hashlib.sha256(pom.read_bytes()).hexdigest()[:16]
    remembered = Path(tempfile.gettempdir()) / f"klamm-tests-classpath-{digest}.txt"
    with alone("maven"):
        if not (remembered.exists() and all(map(os.path.exists, _read(remembered).split(os.pathsep)))):
            ask_maven(remembered)
        return _read(remembered)


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8").strip()


def start_command(
    classpath: str, *options: str, name: str = "", train: Callable[[list[str]], None] | None = None
) -> list[str]:
    """`java` with its options, before the name of a class.

    `train` is given such a command once for each `name` and class path, and runs something that loads most of what the
    others will; everything on the class path has to be a jar.
    """
    command = ["java", *QUICK_START, *options]
    if train is None:
        return [*command, "-cp", classpath]

    def record(folder: Path) -> None:
        train([*command, "-Xlog:disable", f"-XX:ArchiveClassesAtExit={folder / _ARCHIVE}", "-cp", classpath])

    archive = prepared(f"classes-of-{name}", [classpath, *command], record) / _ARCHIVE
    # Without the archive, or with one that does not fit, a JVM loads everything itself, and warns on standard output.
    return [*command, "-Xlog:disable", f"-XX:SharedArchiveFile={archive}", "-cp", classpath]
