"""A handler whose processes die while they start, as often as the file in `DYING_FILE` says. Without a broker."""

from __future__ import annotations

import os
from multiprocessing import current_process
from pathlib import Path

from klamm.worker import Record, Retry, Worker

__all__ = ["app"]

if current_process().name != "MainProcess":
    _file = Path(os.environ["DYING_FILE"])
    _left, _started = map(int, _file.read_text().split())
    _file.write_text(f"{_left - 1} {_started + 1}")
    if _left > 0:
        os._exit(7)

app = Worker("no-broker:9092", group="pool")


@app.handler("dying", pool=1, retries=Retry(1), dead_letters="dying-failed")
def work(record: Record) -> None:
    """Does nothing."""
