"""A process with a worker that writes what happens into a file: `python -m tests.support.worker_process OPTIONS`.

Each line has a time that is comparable between processes, and what happened: `got` with partitions, `begin` and `end`
with partition, offset and key of a record.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from typing import IO, Any

from klamm.worker import Record, Retry, Worker

__all__ = ["main"]


class _Assignments(logging.Handler):
    """Writes each assignment into the file of events."""

    def __init__(self, events: IO[str]) -> None:
        super().__init__(logging.INFO)
        self._events = events

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text.startswith("got "):
            self._events.write(f"{time.monotonic():.6f} {text}\n")


def main() -> None:
    """Runs the worker of the given options until it is killed or told to stop."""
    options: dict[str, Any] = json.loads(sys.argv[1])
    # Unbuffered by lines: a killed process has written all that it did.
    events = open(options["events"], "a", buffering=1)  # noqa: SIM115
    logger = logging.getLogger("klamm.worker")
    logger.setLevel(logging.INFO)
    logger.addHandler(_Assignments(events))
    logger.addHandler(logging.StreamHandler())
    app = Worker(
        options["bootstrap"],
        group=options["group"],
        protocol=options.get("protocol", "classic"),
        instance=options.get("instance"),
        commit_every=options.get("commit_every", 0.5),
        drain=options.get("drain", 10.0),
        settings=options.get("settings"),
    )

    @app.handler("records", concurrency=options.get("concurrency", 32), retries=Retry(10, first=0.01))
    async def handle(record: Record) -> None:
        where = f"{record.partition} {record.offset} {(record.key or b'-').decode()}"
        events.write(f"{time.monotonic():.6f} begin {where}\n")
        await asyncio.sleep(options.get("handler_seconds", 0.001))
        if record.attempt == 1 and record.offset % 500 == 7:
            events.write(f"{time.monotonic():.6f} fail {where}\n")
            raise ValueError("the first attempt of some records fails")
        events.write(f"{time.monotonic():.6f} end {where}\n")

    app.run()


if __name__ == "__main__":
    main()
