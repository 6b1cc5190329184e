"""The jar with a local file system for checkpoints that forks no process; its Java source is in this folder.

Hadoop without its native library, as in pip's PySpark, forks `stat`, `chmod` and `ls` for the files of a checkpoint:
forty processes per micro-batch without state, twenty without checksum files. `make checkpoint-jar` builds the jar with
a JDK (`make install` includes it); `klamm.spark.session(fast_checkpoints=True)` uses it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from klamm.errors import KlammError

__all__ = ["FILE_SYSTEM_CLASS", "is_built", "jar_path"]

FILE_SYSTEM_CLASS: Final = "dev.klamm.checkpoints.CheckpointLocalFs"
"""The value of `fs.AbstractFileSystem.file.impl`."""

_JAR: Final = Path(__file__).with_name("klamm-checkpoints.jar")


def is_built() -> bool:
    """Returns whether there is the jar."""
    return _JAR.exists()


def jar_path() -> Path:
    """Returns the jar's path. Raises `KlammError`, which says how to build the jar, if there is none."""
    if not _JAR.exists():
        raise KlammError(
            f"fast_checkpoints needs {_JAR}, which is not there. With a JDK of version 17 or later (javac), build it "
            f"in klamm's repository with `make checkpoint-jar`, or leave fast_checkpoints out: it only saves time"
        )
    return _JAR
