"""One member of the queue, a process of its own, so that it can be killed: python -m examples.flights.member SERVERS
TOPIC GROUP NAME.

It is a worker: its handler gets batches of flights, in the order of each airport.
"""

from __future__ import annotations

import sys

from klamm.worker import Record, Worker

__all__ = ["main"]


def main(bootstrap_servers: str, topic: str, group: str, name: str) -> None:
    """Handles the flights of its share of the partitions until SIGTERM."""
    app = Worker(
        bootstrap_servers,
        group=group,
        commit_every=0.5,
        settings={
            "log_level": 0,
            "client.id": name,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 2000,
        },
    )

    @app.handler(topic, batch=500, within=0.1)
    def count(flights: list[Record]) -> None:
        assert flights, "a batch is never empty"

    app.run(progress=False)


if __name__ == "__main__":
    main(*sys.argv[1:5])
