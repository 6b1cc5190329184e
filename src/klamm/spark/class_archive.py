"""The archive of the classes that Spark's JVM loads at its start (class-data sharing, a part of each JVM).

A JVM that maps the archive into its memory does not read, check and link these classes again: a session with its first
query takes two fifths less of the JVM's processor time. `klamm pipeline prepare` records the archive. Java writes it
for one Java, one Spark and one class path; a JVM that differs from them loads its classes without it.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import Final

from klamm.spark.checkpoints import is_built, jar_path
from klamm.spark.java import JavaHome
from klamm.spark.machine_folders import cache_folder, spark_home

__all__ = [
    "CLASS_PATH",
    "JAVA_OPTIONS",
    "archive_options",
    "find_archive",
    "front_of_class_path",
    "possible_archives",
    "recording_options",
    "use_archive",
]

JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
"""The setting for the options of the driver's JVM."""
CLASS_PATH: Final = "spark.driver.extraClassPath"
"""The setting for what comes before Spark's jars on the class path of the driver's JVM."""

# Without them, a JVM that can't use the archive prints a warning that the user can do nothing about.
_QUIET: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off"
# Options with which the caller already decides about archives.
_OWN_CHOICE: Final = ("-XX:SharedArchiveFile", "-XX:ArchiveClassesAtExit", "-XX:AOT", "-Xshare:")


def possible_archives(java: JavaHome) -> list[Path]:
    """Returns where the archive for this Java and this Spark may be, the preferred place first.

    It is in the environment's folder, which all users of the environment can read, or else in the user's cache.
    """
    name = f"spark-classes-{_fingerprint(java)}.jsa"
    return [Path(sys.prefix) / "share" / "klamm" / name, cache_folder() / name]


def find_archive(java: JavaHome) -> Path | None:
    """Returns the recorded archive for this Java and this Spark, or None if there is none."""
    return next((path for path in possible_archives(java) if os.access(path, os.R_OK)), None)


def archive_options(archive: Path) -> str:
    """Returns the JVM's options for using the archive, as one text that Spark splits like a shell."""
    return f"{_option('SharedArchiveFile', archive)} {_QUIET}"


def recording_options(archive: Path) -> str:
    """Returns the JVM's options for writing the archive when the JVM ends."""
    return f"{_option('ArchiveClassesAtExit', archive)} {_QUIET}"


def use_archive(settings: MutableMapping[str, str | int | float | bool], java: JavaHome) -> None:
    """Changes the settings of a session on this machine so that its JVM uses the archive, if there is one.

    Does nothing if they set another class path, or already decide about archives.
    """
    options = str(settings.get(JAVA_OPTIONS, ""))
    front = front_of_class_path()
    if settings.get(CLASS_PATH, front) != front or any(choice in options for choice in _OWN_CHOICE):
        return
    archive = find_archive(java)
    if archive is not None:
        settings[JAVA_OPTIONS] = f"{options} {archive_options(archive)}".strip()
        if front:
            settings[CLASS_PATH] = front


def front_of_class_path() -> str:
    """Returns what the class path of the archive has before Spark's jars: the jar for checkpoints, if it was built.

    The jar is always there, so that one archive fits sessions with and without `fast_checkpoints`.
    """
    return str(jar_path()) if is_built() else ""


def _option(name: str, archive: Path) -> str:
    option = f"-XX:{name}={archive}"
    return f'"{option}"' if " " in option else option


def _fingerprint(java: JavaHome) -> str:
    """Returns a text that changes with the Java, the Spark and the class path.

    The JVM compares the jars itself; this only keeps an outdated archive from being looked at.
    """
    try:
        release = (java.path / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        release = str(java.version)
    front = front_of_class_path()
    built = str(Path(front).stat().st_mtime_ns) if front else ""
    parts = (str(java.path), release, str(spark_home()), front, built)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
