"""Workers: handlers for the records of topics, many at once, in order, on any Kafka cluster.

from klamm.worker import Retry, Worker

app = Worker("127.0.0.1:9092", group="billing")

@app.handler("orders", order="key", concurrency=64, retries=Retry(5), dead_letters="orders-failed")
async def bill(record):
    ...

if __name__ == "__main__":
    app.run()
"""

from __future__ import annotations

from klamm.core.delivery.retry_rule import Retry
from klamm.worker.errors import RecordFailed, WorkerError
from klamm.worker.handler_progress import HandlerProgress
from klamm.worker.record import Record
from klamm.worker.worker import Worker

__all__ = ["Worker", "Retry", "Record", "HandlerProgress", "WorkerError", "RecordFailed"]
