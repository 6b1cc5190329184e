"""A worker with a pool, in a module of its own, because the processes of a pool import the handler."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from klamm.worker import Record, Retry, Worker

__all__ = ["app"]

app = Worker(os.environ.get("POOL_BOOTSTRAP", "no-broker:9092"), group="pool", commit_every=0.2)


@app.handler(
    "tasks", pool=2, decode=bytes.decode, retries=Retry(2, first=0.01, deadline=20), dead_letters="tasks-failed"
)
def work(record: Record) -> None:
    """Writes down what it gets; dies, hangs or fails when it is told to."""
    with Path(os.environ["POOL_FILE"]).open("a") as file:
        file.write(f"{os.getpid()} {record.value} {record.attempt}\n")
    if record.value == "die" or (record.value == "die once" and record.attempt == 1):
        os._exit(3)
    if record.value == "fail":
        raise ValueError("as told")


@app.handler("slow-tasks", pool=1, retries=Retry(1, deadline=0.5), dead_letters="tasks-failed")
async def hang(record: Record) -> None:
    """Never ends with the first record; the process is killed."""
    if record.value == b"hang":
        await asyncio.sleep(3600)
