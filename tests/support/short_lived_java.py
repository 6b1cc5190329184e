"""Speeds up the start of JVMs that end with their test, because the start takes most of their time.

Later runs use the prepared files too, which lie in the folder for temporary files. They are the class path that Maven
needs seconds to compute, the compiled drivers, and archives of loaded classes (class-data sharing). An archive halves
the start time.
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
"""JVM options for a process that ends before better compiled code would pay off."""

_ARCHIVE: Final = "classes.jsa"


def prepared(name: str, parts: Iterable[str | bytes], prepare: Callable[[Path], None]) -> Path:
    """Returns a folder that `prepare` fills only once for the Java on PATH and for `parts`, the inputs of `prepare`."""
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
    """Returns the class path of a pom.xml; `ask_maven` writes it to a file if it is unknown or jars are missing."""
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
    """Returns the command `java` with its options, to which the caller adds the name of a class.

    `train` gets such a command once for each `name` and class path, and runs a program that loads most of the classes
    that later programs load. All entries of the class path must be jars.
    """
    command = ["java", *QUICK_START, *options]
    if train is None:
        return [*command, "-cp", classpath]

    def record(folder: Path) -> None:
        train([*command, "-Xlog:disable", f"-XX:ArchiveClassesAtExit={folder / _ARCHIVE}", "-cp", classpath])

    archive = prepared(f"classes-of-{name}", [classpath, *command], record) / _ARCHIVE
    # Without a matching archive, a JVM loads all classes itself, and prints a warning on standard output.
    return [*command, "-Xlog:disable", f"-XX:SharedArchiveFile={archive}", "-cp", classpath]
