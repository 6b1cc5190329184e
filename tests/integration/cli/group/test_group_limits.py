"""What limits a group, as `klamm group explain` and `klamm group history` show it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer
from tests.integration.cli.conftest import PATIENCE_S, Command, Finished
from tests.support.limited_group import HOT_PARTITION, group_with_hot_partition
from tests.support.running_worker import committed, running, wait_until

from klamm.core.delivery.commit_text import decode_note
from klamm.protocol.types import Offset
from klamm.testing import Broker
from klamm.worker import Record, Worker

PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])


def _until(klamm: Command, words: tuple[str, ...], is_so: Callable[[str], bool]) -> Finished:
    """Runs the command until its output meets the condition."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        finished = klamm(*words)
        if finished.status == 0 and is_so(finished.stdout):
            return finished
    raise AssertionError(finished)


@PROTOCOLS
def test_a_hot_partition_is_told_with_its_figures(klamm: Command, topic: str, group: str, protocol: str) -> None:
    """`group explain` names the partition that limits the group, its owner, the rates, and what helps."""
    address = klamm.environment["KLAMM_BOOTSTRAP_SERVER"]
    hot = f"{topic}-{HOT_PARTITION}"
    with group_with_hot_partition(address, topic, group, members=4, **{"group.protocol": protocol}):
        # A partition counts from its owner's first commit on.
        others = "; 1 of 4 members is idle, 2 have no lag that grows"
        finished = _until(
            klamm,
            ("group", "explain", group, "--measure", "4s"),
            lambda text: "limited by" in text and others in " ".join(text.split()),
        )
    lines = [line.strip().removeprefix("· ") for line in finished.stdout.splitlines()]
    assert "the group has lag; its rates are measured for up to 4.0 s" in finished.stderr
    (limit,) = (line for line in lines if line.startswith("limited by"))
    assert limit.startswith(f"limited by {hot}: ")
    assert ", its owner member-" in limit
    assert limit.endswith(others)
    (helps,) = (line for line in lines if line.startswith("more members do not help"))
    assert f"{hot} alone gets " in helps
    assert f"`klamm topic skew {topic}`" in helps


def test_a_group_that_keeps_up_is_explained_at_once(klamm: Command, topic: str, group: str) -> None:
    """A group without lag is not measured."""
    klamm.start("consume", topic, "-g", group)
    finished = _until(klamm, ("group", "explain", group), lambda text: "stable" in text)
    assert finished.stderr == ""
    assert "limited" not in finished.stdout


def test_a_worker_that_waits_for_one_record_is_not_limited(klamm: Command, topic: str, group: str) -> None:
    """The commit of a worker stands still, but the records beyond it are finished as they arrive."""
    address = klamm.environment["KLAMM_BOOTSTRAP_SERVER"]
    app = Worker(address, group=group, commit_every=0.05, drain=1)
    release, is_over = threading.Event(), threading.Event()

    @app.handler(topic, concurrency=10)
    async def handle(record: Record) -> None:
        while record.offset == 0 and not release.is_set():  # noqa: ASYNC110  # the test sets it in another thread
            await asyncio.sleep(0.02)

    def write() -> None:
        producer = Producer({"bootstrap.servers": address})
        number = 0
        while not is_over.wait(0.01):
            producer.produce(topic, b"x", b"%d" % number, partition=0)
            producer.poll(0)
            number += 1
        producer.flush(30)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with running(app):
            wait_until(lambda: decode_note(Offset(0), committed(address, group, topic)[1]).finished)
            explained = klamm("group", "explain", group, "--measure", "4s")
            assert committed(address, group, topic)[0] == 0
            release.set()
    finally:
        is_over.set()
        writer.join()
    assert "its rates are measured" in explained.stderr
    assert "limited" not in explained.stdout
    assert "may hang" not in explained.stdout


@pytest.fixture
def often_measured() -> Iterator[Command]:
    """The command, configured for a broker that looks at its groups every 1.2 seconds."""
    with Broker(config={"klamm.group.traffic.interval.ms": "200"}) as running:
        command = Command(running.bootstrap_servers)
        yield command
        command.end()


@PROTOCOLS
def test_the_history_says_when_a_group_is_limited(often_measured: Command, group: str, protocol: str) -> None:
    """The broker records when a partition begins to limit a group, and when the group keeps up again."""
    klamm, topic = often_measured, "orders"
    address = klamm.environment["KLAMM_BOOTSTRAP_SERVER"]
    klamm.done("topic", "create", topic, "-p", "3")
    history = ("group", "history", group)
    with group_with_hot_partition(address, topic, group, members=4, **{"group.protocol": protocol}):
        shown = _until(klamm, history, lambda text: "  limited  " in text).stdout
        explained = _until(klamm, ("group", "explain", group, "--measure", "0s"), lambda text: "by its history" in text)
    (line,) = (line for line in shown.splitlines() if "why     limited by" in line)
    assert f"limited by {topic}-{HOT_PARTITION}: " in line
    assert "its owner member-" in line
    assert "; more members do not help, because a partition has one owner: " in line
    assert explained.stderr == ""
