"""Tests of a member's commits with a consumer that answers as the test says, without a broker."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as ConsumerPartition

from klamm.core.delivery.work import Received
from klamm.protocol.types import Offset, PartitionIndex, TopicPartition
from klamm.worker import Worker, membership
from klamm.worker.handler_runs import HandlerRuns
from klamm.worker.membership import Membership
from klamm.worker.worker import new_clock

P0 = TopicPartition("orders", PartitionIndex(0))
PARTITIONS = [ConsumerPartition("orders", 0)]


class ScriptedConsumer:
    """A consumer whose polls do what the test says, one thing each."""

    def __init__(self) -> None:
        self.script: list[Callable[[ScriptedConsumer], None]] = []
        self.commits: list[list[tuple[int, str | None]]] = []
        """The offsets and texts of commits with an answer, refused ones included."""
        self.refusals: list[int] = []
        """The error codes of the next commits with an answer."""
        self.on_assign: Any = None
        self.on_revoke: Any = None
        self.on_lost: Any = None

    def subscribe(self, _topics: list[str], **callbacks: Any) -> None:
        """Keeps the callbacks."""
        self.__dict__.update(callbacks)

    def poll(self, _timeout: float) -> None:
        """Does the next thing."""
        if self.script:
            self.script.pop(0)(self)

    def commit(self, *, offsets: list[ConsumerPartition], asynchronous: bool) -> list[ConsumerPartition] | None:
        """Refuses the commit if the test says so."""
        if asynchronous:
            return None
        self.commits.append([(each.offset, each.metadata) for each in offsets])
        if self.refusals:
            raise KafkaException(KafkaError(self.refusals.pop(0)))
        return offsets

    def committed(self, partitions: list[ConsumerPartition], **_options: Any) -> list[ConsumerPartition]:
        """Returns no commit."""
        return [ConsumerPartition(each.topic, each.partition, -1001) for each in partitions]

    def assignment(self) -> list[ConsumerPartition]:
        """Returns that there is none: an eager rebalance has taken all partitions away."""
        return []

    def close(self) -> None:
        """Does nothing."""

    def incremental_assign(self, _partitions: list[ConsumerPartition]) -> None:
        """Does nothing."""

    def resume(self, _partitions: list[ConsumerPartition]) -> None:
        """Does nothing."""


def assign(consumer: ScriptedConsumer) -> None:
    consumer.on_assign(consumer, PARTITIONS)


def revoke(consumer: ScriptedConsumer) -> None:
    consumer.on_revoke(consumer, PARTITIONS)


def lose(consumer: ScriptedConsumer) -> None:
    consumer.on_lost(consumer, PARTITIONS)


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> ScriptedConsumer:
    """Returns the consumer that the next member gets."""
    scripted = ScriptedConsumer()
    monkeypatch.setattr(membership, "Consumer", lambda _settings: scripted)
    return scripted


def run_member(consumer: ScriptedConsumer) -> None:
    """Runs a member that gets a partition with two records, finishes the first one and stops with its last commit."""
    app = Worker("no-broker:9092", group="scripted")

    @app.handler("orders", concurrency=2)
    async def handle() -> None:
        pass

    (plan,) = app.handlers
    runs = HandlerRuns(plan, clock_ms=new_clock(), to_record=lambda each: each, bury=None, stop=print)
    stopping = threading.Event()

    def handle_one(_consumer: ScriptedConsumer) -> None:
        runs.receive(P0, [Received(Offset(offset), b"a", 1, None) for offset in range(2)])
        runs.delivery.succeed(runs.delivery.take(0))
        stopping.set()

    consumer.script[:0] = [assign, handle_one]
    settings = {"partition.assignment.strategy": "cooperative-sticky"}
    new_member(settings, runs).run(stopping)


def new_member(settings: dict[str, Any], runs: HandlerRuns) -> Membership:
    """Returns a member that makes no commits at intervals."""
    return Membership(
        settings,
        {"orders": runs},
        commit_every=3600,
        drain_seconds=1,
        on_gone=lambda: None,
        on_turn=lambda: None,
    )


def test_a_refused_commit_is_made_when_the_group_takes_the_partition(
    consumer: ScriptedConsumer, caplog: pytest.LogCaptureFixture
) -> None:
    """An eager rebalance takes all partitions away from a member that stops: this is the last moment to commit."""
    consumer.refusals = [KafkaError.REBALANCE_IN_PROGRESS]
    consumer.script = [revoke]
    run_member(consumer)
    assert [offset for ((offset, _),) in consumer.commits] == [1, 1]
    assert "refused" not in caplog.text


@pytest.mark.parametrize("script", [[lose], [lose, assign], [assign]])
def test_a_refused_commit_is_not_made_after_the_partition_was_lost(
    consumer: ScriptedConsumer, caplog: pytest.LogCaptureFixture, script: list[Callable[[ScriptedConsumer], None]]
) -> None:
    """Another member may have committed meanwhile, also if the partition came back."""
    consumer.refusals = [KafkaError.ILLEGAL_GENERATION]
    consumer.script = list(script)
    run_member(consumer)
    assert len(consumer.commits) == 1
    assert "the last commit of 1 partitions was refused" in caplog.text


def test_a_commit_that_is_always_refused_is_told(
    consumer: ScriptedConsumer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The member leaves after some time, with a warning."""
    monkeypatch.setattr(membership, "_REBALANCE_SECONDS", 0.5)
    consumer.refusals = [KafkaError.ILLEGAL_GENERATION] * 1_000_000
    run_member(consumer)
    assert "the last commit of 1 partitions was refused" in caplog.text


def test_a_last_commit_whose_text_is_too_long_is_made_without_it(consumer: ScriptedConsumer) -> None:
    """The position is committed at least."""
    consumer.refusals = [KafkaError.OFFSET_METADATA_TOO_LARGE]
    run_member(consumer)
    ((_, text),), last = consumer.commits
    assert text
    assert [(offset, text or "") for offset, text in last] == [(1, "")]


def test_any_partition_of_a_commit_may_tell_that_texts_are_too_long(
    consumer: ScriptedConsumer, caplog: pytest.LogCaptureFixture
) -> None:
    """Not only the first one that has failed."""
    app = Worker("no-broker:9092", group="scripted")
    app.handler("orders")(lambda record: None)
    (plan,) = app.handlers
    runs = HandlerRuns(plan, clock_ms=new_clock(), to_record=lambda each: each, bury=None, stop=print)
    settings: dict[str, Any] = {}

    def keep(given: dict[str, Any]) -> ScriptedConsumer:
        settings.update(given)
        return consumer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(membership, "Consumer", keep)
        new_member({"group.protocol": "consumer"}, runs)

    class Answered(ConsumerPartition):
        """A partition whose commit has failed."""

        def __init__(self, partition: int, code: int) -> None:
            super().__init__("orders", partition)
            self._cause = KafkaError(code)

        @property
        def error(self) -> KafkaError:  # type: ignore[override]
            return self._cause

    caplog.set_level(logging.INFO)
    before = runs.delivery.window.note_characters
    failed = [Answered(0, KafkaError.REBALANCE_IN_PROGRESS), Answered(1, KafkaError.OFFSET_METADATA_TOO_LARGE)]
    settings["on_commit"](None, failed)
    assert runs.delivery.window.note_characters == before // 2
    assert [each.levelno for each in caplog.records] == [logging.WARNING]
