"""Two processes that use the same data directory."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.support.log_folder import NOW_MS, LogFolder

from klamm.storage.directory.file_lock import DataDirectoryInUse
from klamm.storage.directory.log_directory import LogDirectory


def test_a_second_broker_is_kept_out(folder: LogFolder) -> None:
    """A locked data directory is refused to a second broker of the same or another process; the error says what to
    do."""
    with pytest.raises(DataDirectoryInUse, match="stop that one first"):
        LogDirectory(folder.path, clock=lambda: NOW_MS).owner.lock()
    script = (
        "import sys; from pathlib import Path; from klamm.storage.directory.file_lock import *\n"
        "try: FileLock(Path(sys.argv[1]))\n"
        "except DataDirectoryInUse: print('in use')"
    )
    command = [sys.executable, "-c", script, str(folder.path)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "in use\n"
    folder.directory.close()
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == ""
    folder.start()
