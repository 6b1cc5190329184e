"""The jar with a local file system for checkpoints that forks no process; its Java source lies beside this file.

Hadoop without its native library, as pip's PySpark has it, forks `stat`, `chmod` and `ls` for the files of a
checkpoint: forty processes a micro-batch without state, twenty without checksum files. `make checkpoint-jar` builds the
jar where a JDK is (`make install` does it by itself); `klamm.spark.session(fast_checkpoints=True)` uses it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from klamm.errors import KlammError

__all__ = ["FILE_SYSTEM_CLASS", "jar_path"]

FILE_SYSTEM_CLASS: Final = "dev.klamm.checkpoints.CheckpointLocalFs"
"""What `fs.AbstractFileSystem.file.impl` names."""

_JAR: Final = Path(__file__).with_name("klamm-checkpoints.jar")


def jar_path() -> Path:
    """Where the jar is. Raises `KlammError`, saying how it is built, if it was not built here."""
    if not _JAR.exists():
        raise KlammError(
            f"fast_checkpoints needs {_JAR}, which is not there. With a JDK of version 17 or later (javac), build it "
            f"in klamm's repository with `make checkpoint-jar`, or leave fast_checkpoints out: it only saves time"
        )
    return _JAR
