"""Ends a process at each step of a cleaning that changes a file: `python -m tests.support.cleaner_crashes FROM TO`.

FROM is a closed data directory with a log that is due. For each number n, the program copies FROM to TO/n. A separate
process cleans the copy, and exits without any clean-up just before the n-th change. The last process finishes.
"""

from __future__ import annotations

import itertools
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.support.cleaner import clean
from tests.support.log_folder import LogFolder

from klamm.config.topic_config import TopicConfig

__all__ = ["CONFIG", "main"]

CONFIG: Final = TopicConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=400, min_cleanable_dirty_ratio=0.0)
CHANGES: Final = frozenset({"os.rename", "os.remove", "os.truncate"})
ENDED_EARLY: Final = 9


def main(arguments: list[str]) -> None:
    """Runs the cleanings, one process for each change."""
    origin, target = map(Path, arguments)
    for number in itertools.count():
        shutil.copytree(origin, target / str(number))
        if not (child := os.fork()):
            _clean(target / str(number), number)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        if code != ENDED_EARLY:
            sys.exit(code)


def _clean(path: Path, number: int) -> None:
    folder = LogFolder(path, replace(CONFIG, segment_bytes=600))
    log = folder.log()
    log.advance_high_watermark(log.log_end_offset)
    changes = itertools.count()

    def end_at_change(event: str, details: tuple[object, ...]) -> None:
        writes = event == "open" and isinstance(details[2], int) and details[2] & (os.O_WRONLY | os.O_RDWR)
        if (event in CHANGES or writes) and next(changes) == number:
            os._exit(ENDED_EARLY)

    sys.addaudithook(end_at_change)
    os._exit(0 if clean(folder) else 1)


if __name__ == "__main__":
    main(sys.argv[1:])
