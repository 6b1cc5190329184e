"""Tests of workers whose partitions move: cooperative rebalances, static members, and partitions that are lost."""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from tests.support.group_configs import set_group_config
from tests.support.running_worker import QUICK_GROUPS, committed, create_topic, new_worker, produce, running, wait_until

from klamm.testing import Broker
from klamm.worker import Record, Worker

PROTOCOLS: tuple[Any, ...] = ("classic", "consumer")
SESSION_MS = 6_000
"""Long enough for a member that runs and gets no processor for seconds: only the stopped one loses its session."""
CONFIG = {**QUICK_GROUPS, "group.consumer.min.session.timeout.ms": str(SESSION_MS)}


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """Runs a broker for all tests; each test has its own topic and group."""
    with Broker(config=CONFIG) as running:
        yield running.bootstrap_servers


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Returns what the workers of a test have logged."""
    caplog.set_level(logging.INFO, "klamm.worker.membership")
    return caplog


def messages_of(told: pytest.LogCaptureFixture, thread: threading.Thread) -> list[str]:
    """Returns what one worker has logged, without texts that say nothing of partitions."""
    words = ("got ", "gives back ", "lost ")
    found = [each.getMessage() for each in told.records if each.thread == thread.ident]
    return [text for text in found if text.startswith(words) and not text.endswith("no partition")]


def members_of(servers: str, group: str) -> int:
    """Returns how many members the group has."""
    admin = AdminClient({"bootstrap.servers": servers})
    return len(admin.describe_consumer_groups([group])[group].result(30).members)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_partitions_that_stay_go_on_while_another_one_drains(
    servers: str, protocol: Any, told: pytest.LogCaptureFixture
) -> None:
    """A second member joins. The first one waits for what runs of the partition that it gives back. Meanwhile the
    records of the partition that stays are handled and committed.
    """
    topic = f"stays-{protocol}"
    create_topic(servers, topic, 2)
    for partition in range(2):
        produce(servers, topic, ((b"%d" % number, b"x") for number in range(200)), partition=partition)
    handled: Counter[int] = Counter()
    calls: list[tuple[int, int]] = []
    may_go_on = threading.Event(), threading.Event()

    def declare(app: Worker) -> None:
        @app.handler(topic, order="partition", concurrency=2)
        async def handle(record: Record) -> None:
            calls.append((record.partition, record.offset))
            event = may_go_on[record.partition]
            while record.offset == 10 and not event.is_set():  # noqa: ASYNC110  # the test sets it in another thread
                await asyncio.sleep(0.02)
            handled[record.partition] += 1

    first, second = (new_worker(servers, topic, protocol=protocol, drain=60) for _ in range(2))
    declare(first)
    declare(second)
    with running(first) as thread:
        wait_until(lambda: handled == {0: 10, 1: 10})
        with running(second):
            wait_until(lambda: any(text.startswith("gives back") for text in messages_of(told, thread)))
            (text,) = [text for text in messages_of(told, thread) if text.startswith("gives back")]
            given = int(text[-1])
            may_go_on[1 - given].set()
            wait_until(lambda: handled[1 - given] == 200, "the partition that stays stands still")
            wait_until(lambda: committed(servers, topic, topic, 1 - given)[0] == 200, "nothing is committed meanwhile")
            assert handled[given] == 10
            may_go_on[given].set()
            wait_until(lambda: handled[given] == 200)
    assert len(calls) == len(set(calls)) == 400


def test_an_eager_rebalance_takes_all_partitions(servers: str, told: pytest.LogCaptureFixture) -> None:
    """With `range`, members give back everything in each rebalance, drained and committed: nothing runs twice."""
    create_topic(servers, "eager", 4)
    for partition in range(4):
        produce(servers, "eager", ((b"%d" % number, b"x") for number in range(300)), partition=partition)
    calls: list[tuple[int, int]] = []
    may_go_on = threading.Event()

    def declare(app: Worker) -> None:
        @app.handler("eager", concurrency=8)
        async def handle(record: Record) -> None:
            calls.append((record.partition, record.offset))
            while record.offset >= 100 and not may_go_on.is_set():  # noqa: ASYNC110  # the test sets it in another thread
                await asyncio.sleep(0.02)

    settings = {"partition.assignment.strategy": "range"}
    first, second = (new_worker(servers, "eager", settings=settings) for _ in range(2))
    declare(first)
    declare(second)
    with running(first) as thread:
        wait_until(lambda: len(calls) > 50)
        with running(second):
            wait_until(lambda: any(text.startswith("gives back") for text in messages_of(told, thread)))
            may_go_on.set()
            wait_until(lambda: len(calls) >= 1200)
        texts = messages_of(told, thread)
    everything = ", ".join(f"eager-{partition}" for partition in range(4))
    assert texts[:2] == [f"got {everything}", f"gives back {everything}"]
    assert len(texts[2].split(",")) == 2
    assert len(calls) == len(set(calls)) == 1200


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_static_members_keep_their_partitions(servers: str, protocol: Any, told: pytest.LogCaptureFixture) -> None:
    """A worker that ends and comes back under its name gets its partition again, and the other one notices nothing."""
    topic = f"static-{protocol}"
    create_topic(servers, topic, 2)
    settings = {"session.timeout.ms": 30_000} if protocol == "classic" else {}

    def new(name: str) -> Worker:
        app = new_worker(servers, topic, protocol=protocol, instance=name, settings=settings)

        @app.handler(topic)
        async def handle(record: Record) -> None:
            pass

        return app

    def partitions_of(app: Worker) -> int:
        return sum(each.partitions for each in app.progress())

    one, two = new("one"), new("two")
    with running(one) as thread:
        wait_until(lambda: partitions_of(one) == 2)
        with running(two) as thread_of_two:
            wait_until(lambda: partitions_of(one) == partitions_of(two) == 1)
        (got,) = [text for text in messages_of(told, thread_of_two) if text.startswith("got")]
        told.clear()
        again = new("two")
        with running(again) as thread_of_again:
            wait_until(lambda: partitions_of(again) == 1)
            produce(servers, topic, [(b"a", b"x")], partition=0)
            produce(servers, topic, [(b"a", b"x")], partition=1)
            wait_until(lambda: all(committed(servers, topic, topic, partition)[0] == 1 for partition in range(2)))
            assert messages_of(told, thread_of_again) == [got]
            assert messages_of(told, thread) == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_threads_commit_nothing_for_a_partition_that_was_lost(servers: str, tmp_path: Path, protocol: Any) -> None:
    """A process stands still beyond its session while its threads run records. The standby handles them and commits.
    Then the process is a member again and its threads end, but the offset of the new owner does not go back.
    """
    topic = f"lost-{protocol}"
    create_topic(servers, topic)
    if protocol == "consumer":
        set_group_config(servers, topic, consumer_session_timeout_ms=str(SESSION_MS))
    produce(servers, topic, ((b"%d" % number, b"x") for number in range(10)))
    may_end, release_last = tmp_path / "may-end", threading.Event()
    script = tmp_path / "owner.py"
    settings = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 200} if protocol == "classic" else {}
    script.write_text(
        "import pathlib, time\n"
        "from klamm.worker import Worker\n"
        f"app = Worker({servers!r}, group={topic!r}, protocol={protocol!r}, commit_every=0.1, settings={settings!r})\n"
        f"@app.handler({topic!r}, order='none', concurrency=4)\n"
        "def handle(record):\n"
        "    print(f'{record.offset}\\n', end='', flush=True)\n"
        f"    while not pathlib.Path({str(may_end)!r}).exists():\n"
        "        time.sleep(0.02)\n"
        "app.run()\n"
    )
    standby = new_worker(servers, topic, protocol=protocol)
    handled: list[int] = []

    @standby.handler(topic, order="none", concurrency=4)
    def handle(record: Record) -> None:
        if record.offset >= 6:
            release_last.wait(60)
        handled.append(record.offset)

    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as owner:
        try:
            assert owner.stdout is not None
            assert sorted(int(owner.stdout.readline()) for _ in range(4)) == [0, 1, 2, 3]
            with running(standby):
                wait_until(lambda: members_of(servers, topic) == 2)
                owner.send_signal(signal.SIGSTOP)
                wait_until(lambda: committed(servers, topic, topic)[0] == 6)
                owner.send_signal(signal.SIGCONT)
                wait_until(lambda: members_of(servers, topic) == 2)
                may_end.touch()
                ends = time.monotonic() + 1  # ten times as long as the time between two commits
                while time.monotonic() < ends:
                    assert committed(servers, topic, topic)[0] == 6
                release_last.set()
                wait_until(lambda: committed(servers, topic, topic)[0] == 10)
            owner.send_signal(signal.SIGTERM)
            assert owner.stdout.read() == ""
            assert owner.wait(30) == 0
        finally:
            owner.kill()
    assert sorted(handled) == list(range(10))
