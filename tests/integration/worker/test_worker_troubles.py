"""Tests that a worker loses no record when requests fail, records are unusual, or functions are decorated."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import wraps
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException
from tests.support.running_worker import (
    QUICK_GROUPS,
    committed,
    create_topic,
    new_worker,
    produce,
    read_all,
    running,
    wait_until,
)

from klamm.core.delivery.commit_text import decode_note
from klamm.protocol.types import Offset
from klamm.testing import Broker
from klamm.worker import Record, Retry, Worker, membership


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """Runs a broker for all tests; each test has its own topic and group."""
    with Broker(config={**QUICK_GROUPS, "message.max.bytes": "2000000"}) as running:
        yield running.bootstrap_servers


def test_a_plain_function_that_returns_a_coroutine_is_not_skipped(servers: str) -> None:
    """A decorator may hide that a function is a coroutine function. The coroutine runs, in the handler's thread."""
    create_topic(servers, "decorated")
    produce(servers, "decorated", [(b"a", b"1"), (b"a", b"2")])
    app = new_worker(servers, "decorated")
    handled: list[bytes] = []

    def counted(function: Callable[[Record], Any]) -> Callable[[Record], Any]:
        @wraps(function)
        def call(record: Record) -> Any:
            return function(record)

        return call

    @app.handler("decorated")
    @counted
    async def handle(record: Record) -> None:
        await asyncio.sleep(0)
        handled.append(record.value)

    with running(app):
        wait_until(lambda: committed(servers, "decorated", "decorated")[0] == 2)
    assert handled == [b"1", b"2"]


def test_a_start_at_the_end_loses_nothing_after_the_first_assignment(servers: str) -> None:
    """With `start="latest"`, a partition without records has a commit, from which the next worker goes on."""
    create_topic(servers, "late")
    produce(servers, "late", [(b"a", b"before")])
    handled: list[bytes] = []

    def new() -> Worker:
        app = new_worker(servers, "late", start="latest")

        @app.handler("late")
        async def handle(record: Record) -> None:
            handled.append(record.value)

        return app

    with running(new()):
        wait_until(lambda: committed(servers, "late", "late")[0] == 1)
    produce(servers, "late", [(b"a", b"between")])
    with running(new()):
        wait_until(lambda: committed(servers, "late", "late")[0] == 2)
    assert handled == [b"between"]


def test_dead_letters_of_unusual_records(servers: str) -> None:
    """A record may be larger than a producer's default, and an error's text may be no valid Unicode."""
    create_topic(servers, "unusual")
    create_topic(servers, "unusual-failed")
    large, half = b"x" * 1_020_000, json.dumps("\ud83d").encode()
    settings = {"message.max.bytes": 2_000_000}
    produce(servers, "unusual", [(b"a", large), (b"b", half)], settings=settings)
    app = new_worker(servers, "unusual")

    @app.handler("unusual", retries=Retry(1), dead_letters="unusual-failed")
    async def handle(record: Record) -> None:
        raise ValueError(json.loads(record.value) if record.key == b"b" else "large")

    with running(app):
        letters = read_all(servers, "unusual-failed", 2)
        wait_until(lambda: committed(servers, "unusual", "unusual")[0] == 2)
    found = {letter.key(): (letter.value(), dict(letter.headers())["klamm.reason"]) for letter in letters}
    assert found == {b"a": (large, b"ValueError: large"), b"b": (half, rb"ValueError: \ud83d")}


def test_the_last_commit_is_made_again_after_a_rebalance(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rebalance of other members may refuse the last commit of a worker that stops: nothing is handled again."""
    refusals = 0

    class RefusedOnce(Consumer):
        """A consumer whose first synchronous commit meets a rebalance."""

        def commit(self, *arguments: Any, **options: Any) -> Any:
            nonlocal refusals
            if not options["asynchronous"] and not refusals:
                refusals += 1
                raise KafkaException(KafkaError(KafkaError.ILLEGAL_GENERATION))
            return super().commit(*arguments, **options)

    monkeypatch.setattr(membership, "Consumer", RefusedOnce)
    create_topic(servers, "refused")
    produce(servers, "refused", [(b"a", b"1"), (b"b", b"2")])
    app = new_worker(servers, "refused", commit_every=3600)
    handled = 0

    @app.handler("refused")
    async def handle(record: Record) -> None:
        nonlocal handled
        handled += 1

    with running(app):
        wait_until(lambda: handled == 2)
    assert refusals == 1
    assert committed(servers, "refused", "refused")[0] == 2


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_last_commit_whose_text_the_broker_refuses(partitions: int) -> None:
    """The position is committed, and only what is beyond it runs again: also if other partitions are accepted."""
    with Broker(config={**QUICK_GROUPS, "offset.metadata.max.bytes": "20"}) as broker:
        servers = broker.bootstrap_servers
        create_topic(servers, "long-text", partitions)
        for partition in range(partitions):
            produce(servers, "long-text", [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")], partition=partition)
        handled = 0
        release = threading.Event()
        app = new_worker(servers, "long-text", commit_every=3600, drain=0.5)

        @app.handler("long-text", concurrency=6)
        async def handle(record: Record) -> None:
            nonlocal handled
            while record.partition == 0 and record.offset == 1 and not release.is_set():  # noqa: ASYNC110  # as above
                await asyncio.sleep(0.02)
            handled += 1

        with running(app):
            wait_until(lambda: handled == 3 * partitions - 1)
        assert committed(servers, "long-text", "long-text", 0) == (1, "")
        if partitions == 2:
            assert committed(servers, "long-text", "long-text", 1)[0] == 3


def test_the_ends_of_an_assignment_have_one_time_limit(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions without a leader do not hold up the others each for itself."""
    timeouts: list[float] = []

    class Leaderless(Consumer):
        """A consumer that can't ask for the end of a partition."""

        def get_watermark_offsets(self, *_arguments: Any, **options: Any) -> Any:
            timeouts.append(options["timeout"])
            time.sleep(options["timeout"])
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    monkeypatch.setattr(membership, "Consumer", Leaderless)
    monkeypatch.setattr(membership, "_END_SECONDS", 1.0)
    create_topic(servers, "ends", 20)
    app = new_worker(servers, "ends", start="latest")

    @app.handler("ends")
    async def handle(record: Record) -> None:
        pass

    with running(app):
        wait_until(lambda: sum(each.partitions for each in app.progress()) == 20)
    # One limit for each of the twenty would be twenty seconds. A wait that lasts too long leaves less for the others.
    assert 0 < sum(timeouts) <= 1.001


def test_a_coordinator_that_moves_does_not_end_the_worker(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker asks for the committed offsets of an assignment again while a new coordinator begins."""
    refusals = [KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS]

    class Refused(Consumer):
        """A consumer whose first questions meet a coordinator that moves."""

        def committed(self, *arguments: Any, **options: Any) -> Any:
            if refusals:
                raise KafkaException(KafkaError(refusals.pop()))
            return super().committed(*arguments, **options)

    monkeypatch.setattr(membership, "Consumer", Refused)
    create_topic(servers, "moved")
    produce(servers, "moved", [(b"a", b"1")])
    app = new_worker(servers, "moved")

    @app.handler("moved")
    async def handle(record: Record) -> None:
        pass

    with running(app):
        wait_until(lambda: committed(servers, "moved", "moved")[0] == 1)
    assert refusals == []


def test_a_partition_whose_end_is_unknown_does_not_end_the_worker(
    servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partition without a leader has no end that could confirm the ranges of its commit: they are not used."""
    create_topic(servers, "leaderless")
    produce(servers, "leaderless", [(b"a", b"1"), (b"b", b"2")])
    release = threading.Event()
    calls: list[bytes] = []

    def new() -> Worker:
        app = new_worker(servers, "leaderless", drain=0.1)

        @app.handler("leaderless", concurrency=2)
        async def handle(record: Record) -> None:
            calls.append(record.value)
            while record.value == b"1" and not release.is_set():  # noqa: ASYNC110  # the test sets it in another thread
                await asyncio.sleep(0.02)

        return app

    def has_range() -> bool:
        offset, text = committed(servers, "leaderless", "leaderless")
        return decode_note(Offset(offset), text).finished == ((1, 2),)

    with running(new()):
        wait_until(has_range)

    class WithoutEnds(Consumer):
        """A consumer that can't ask for the end of a partition."""

        def get_watermark_offsets(self, *_arguments: Any, **_options: Any) -> Any:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    monkeypatch.setattr(membership, "Consumer", WithoutEnds)
    release.set()
    with running(new()):
        wait_until(lambda: committed(servers, "leaderless", "leaderless")[0] == 2)
    assert sorted(calls) == [b"1", b"1", b"2", b"2"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_an_assignment_that_comes_while_the_worker_leaves(
    servers: str, monkeypatch: pytest.MonkeyPatch, protocol: Any
) -> None:
    """Another member leaves at the same moment: the worker gets its partition, asks for no offset of it, and ends."""
    leaves, may_leave = threading.Event(), threading.Event()

    class SlowToLeave(Consumer):
        """A consumer that leaves when the test says so."""

        def close(self) -> None:
            leaves.set()
            may_leave.wait(60)
            super().close()

    topic = f"leaving-{protocol}"
    create_topic(servers, topic, 2)

    def new() -> Worker:
        app = new_worker(servers, topic, protocol=protocol)

        @app.handler(topic)
        async def handle(record: Record) -> None:
            pass

        return app

    def partitions_of(app: Worker) -> int:
        return sum(each.partitions for each in app.progress())

    first, second = new(), new()
    with ExitStack() as stack:
        with monkeypatch.context() as patch:
            patch.setattr(membership, "Consumer", SlowToLeave)
            thread = stack.enter_context(running(first))
            wait_until(lambda: partitions_of(first) == 2)
        with running(second):
            wait_until(lambda: partitions_of(first) == partitions_of(second) == 1)
            first.stop()
            assert leaves.wait(60)
        time.sleep(1)  # the consumer's own thread gets the partition of the other member
        may_leave.set()
        thread.join(20)
        assert not thread.is_alive()


def test_handlers_of_one_name_have_figures_of_their_own(servers: str) -> None:
    """The second handler of a name has its topic in the name of its figures."""
    app = new_worker(servers, "names")

    @app.handler("first")
    async def handle(record: Record) -> None:
        pass

    app.handler("second", "third")(handle)
    assert [plan.name for plan in app.handlers] == ["handle", "handle:second"]


def test_a_fetch_is_no_larger_than_the_queue(servers: str) -> None:
    """librdkafka limits an answer to the size of its queue, which the worker sets to 8 MiB. The figure shows in what it
    demands of `receive.message.max.bytes`. Larger records are a setting of the user.
    """
    settings = new_worker(servers, "memory")._settings
    least = (8 << 20) + 512
    for more in ({"receive.message.max.bytes": least}, {"message.max.bytes": 20_000_000}):
        Consumer({**settings, **more}).close()
    with pytest.raises(KafkaException, match=r"must be >= `fetch.max.bytes` \+ 512"):
        Consumer({**settings, "receive.message.max.bytes": least - 1})
