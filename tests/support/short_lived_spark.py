"""Spark settings for sessions that end with their test.

All of them use the archive of `klamm pipeline prepare`, also where `klamm.spark.session` does not add it: in the JVMs
of executors and of spark-submit. A JVM without the archive, or with other jars, loads all classes itself.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any, Final

from tests.support.alone import alone
from tests.support.short_lived_java import QUICK_START

from klamm.spark.class_archive import (
    CLASS_PATH,
    JAVA_OPTIONS,
    archive_options,
    find_archive,
    front_of_class_path,
    possible_archives,
)
from klamm.spark.java import JavaNotFound, find_java

__all__ = ["SHORT_LIVED_JVM", "prepare_classes"]


def _settings() -> dict[str, Any]:
    # A JVM that ends with its test spends more on compiling for the long run than it wins.
    options = [*QUICK_START]
    try:
        options.append(archive_options(possible_archives(find_java())[0]))
    except JavaNotFound:
        return {}  # the tests are skipped
    front = front_of_class_path()
    return {JAVA_OPTIONS: " ".join(options), **({CLASS_PATH: front} if front else {})}


SHORT_LIVED_JVM: Final[dict[str, Any]] = _settings()


def prepare_classes() -> None:
    """Writes the archive, unless there is one."""
    with alone("classes-of-spark"):
        if find_archive(find_java()) is None:
            subprocess.run([sys.executable, "-m", "klamm.cli", "pipeline", "prepare"], check=True, capture_output=True)
