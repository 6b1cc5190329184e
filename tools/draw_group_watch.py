"""Draws docs/group-watch.svg: the screen of `klamm group watch` while a real group rebalances.

Starts a broker, a topic with six partitions and two consumers of the consumer protocol (KIP-848). A third consumer
joins while the first one has stopped polling, so the third one waits for the partitions of the first.
"""

from __future__ import annotations

import io
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console

from klamm.cli.group.watch_view import watch_view
from klamm.insight.cluster_access import ClusterAccess
from klamm.insight.group.group_watcher import GroupWatcher
from klamm.testing import Broker

TARGET: Final = Path(__file__).resolve().parents[1] / "docs" / "group-watch.svg"
WIDTH: Final = 88
TOPIC: Final = "orders"
GROUP: Final = "billing"
PATIENCE_S: Final = 30.0


def main() -> int:
    """Returns 1 if no rebalance with a waiting member was seen, else 0."""
    with ExitStack() as stack:
        broker = stack.enter_context(Broker())
        servers = broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_topics([NewTopic(TOPIC, 6)])[TOPIC].result(30)
        stack.enter_context(running(lambda stop: produce(servers, stop)))
        pause = threading.Event()
        stack.enter_context(running(lambda stop: consume(servers, "one", stop, pause)))
        stack.enter_context(running(lambda stop: consume(servers, "two", stop)))
        time.sleep(6)
        watcher = GroupWatcher(ClusterAccess(servers), GROUP)
        stack.callback(watcher.close)
        watcher.look_again()
        pause.set()
        stack.enter_context(running(lambda stop: consume(servers, "three", stop)))
        console = Console(width=WIDTH, record=True, file=io.StringIO(), highlight=False)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            time.sleep(1)
            watcher.look_again()
            console.print(watch_view(watcher.seen, WIDTH, 30))
            if "waits for" in console.export_text(clear=False):
                svg = console.export_svg(title=f"klamm group watch {GROUP}", clear=False)
                TARGET.write_text(without_remote_fonts(svg), encoding="utf-8")
                print(console.export_text())
                return 0
            console.export_text()
    print("no member was seen waiting", file=sys.stderr)
    return 1


@contextmanager
def running(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Runs `work` on a thread until the block ends; `work` gets the event that stops it."""
    stop = threading.Event()
    thread = threading.Thread(target=work, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def without_remote_fonts(svg: str) -> str:
    """Returns the picture without fonts from other hosts, so that a page can show it offline."""
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)


def produce(servers: str, stop: threading.Event) -> None:
    """Produces some hundred records a second."""
    producer = Producer({"bootstrap.servers": servers})
    number = 0
    while not stop.wait(0.02):
        for _ in range(10):
            number += 1
            producer.produce(TOPIC, key=str(number), value=f"order {number}")
        producer.poll(0)
    producer.flush(10)


def consume(servers: str, name: str, stop: threading.Event, pause: threading.Event | None = None) -> None:
    """Consumes as a member called `name`; after `pause` it owns its partitions and does not poll."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": GROUP,
            "client.id": name,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 500,
        }
    )
    consumer.subscribe([TOPIC])
    while not stop.is_set():
        if pause is not None and pause.is_set():
            stop.wait(0.1)
        else:
            consumer.poll(0.1)
    consumer.close()


if __name__ == "__main__":
    sys.exit(main())
