"""One member of the queue, a process of its own, so that it can be killed: python -m examples.flights.member SERVERS
TOPIC GROUP NAME FOLDER.

It is a worker: its handler gets batches of flights, in the order of each airport. It notes each flight in a file.
"""

from __future__ import annotations

import sys
from pathlib import Path

from klamm.worker import Record, Worker

__all__ = ["main"]


def main(bootstrap_servers: str, topic: str, group: str, name: str, folder: str) -> None:
    """Handles the flights of its share of the partitions until SIGTERM."""
    notes = Path(folder, name)
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
    def note(flights: list[Record]) -> None:
        lines = "".join(f"{flight.partition} {flight.offset}\n" for flight in flights)
        with notes.open("ab", buffering=0) as file:  # one write for a batch: batches are handled side by side
            file.write(lines.encode())

    app.run(progress=False)


if __name__ == "__main__":
    main(*sys.argv[1:6])
