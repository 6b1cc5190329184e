"""The archive of the classes that Spark's JVM loads at its start (class-data sharing, a part of each JVM).

A JVM that maps the archive into its memory does not read, check and link these classes again: a session with its first
query takes two fifths less of the JVM's processor time. `klamm pipeline prepare` records the archive. Java writes it
for one Java, one Spark and one class path; a JVM that differs from them loads its classes without it.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping, MutableMapping
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
    "lacks_archive",
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
_CONFIGURATION_FOLDERS: Final = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR")
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
    archive = find_archive(java)
    if archive is None or not _leaves_choice(settings):
        return
    settings[JAVA_OPTIONS] = f"{settings.get(JAVA_OPTIONS, '')} {archive_options(archive)}".strip()
    if front := front_of_class_path():
        settings[CLASS_PATH] = front


def lacks_archive(settings: Mapping[str, str | int | float | bool], java: JavaHome) -> bool:
    """Returns whether a session with these settings would use an archive, and there is none yet.

    With a folder of configuration files on the class path, a JVM neither writes nor uses an archive.
    """
    return _leaves_choice(settings) and find_archive(java) is None and not _has_configuration_files()


def front_of_class_path() -> str:
    """Returns what the class path of the archive has before Spark's jars: the jar for checkpoints, if it was built.

    The jar is always there, so that one archive fits sessions with and without `fast_checkpoints`.
    """
    return str(jar_path()) if is_built() else ""


def _leaves_choice(settings: Mapping[str, str | int | float | bool]) -> bool:
    """Returns whether the settings fit the class path of the archive, and say nothing about archives."""
    front = front_of_class_path()
    options = str(settings.get(JAVA_OPTIONS, ""))
    return settings.get(CLASS_PATH, front) == front and not any(choice in options for choice in _OWN_CHOICE)


def _has_configuration_files() -> bool:
    home = spark_home()
    folders = [Path(os.environ[name]) for name in _CONFIGURATION_FOLDERS if os.environ.get(name)]
    if "SPARK_CONF_DIR" not in os.environ and home is not None:
        folders.append(home / "conf")
    return any(_has_files(folder) for folder in folders)


def _has_files(folder: Path) -> bool:
    try:
        return any(folder.iterdir())
    except OSError:  # no folder, or one that Java can't list either
        return False


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
