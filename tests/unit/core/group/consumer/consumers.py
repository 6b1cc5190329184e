"""Simulated clients of a consumer group, whose next request depends on the last answer.

Each client is one consumer process of the consumer protocol. A client joins, reports its partitions, revokes partitions
some heartbeats after the request, and commits offsets. A fenced client drops all partitions and joins again. A client
may also crash and restart; a restart keeps only the instance id.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from tests.unit.core.group.consumer.consumer_driver import EVENTS, Beat, ConsumerDriver, name_of

from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.consumer_group_heartbeat_request import TopicPartitions

__all__ = ["Consumer", "ConsumerState"]

START_OVER = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)


class ConsumerState(Enum):
    """The state of a consumer, which decides what the consumer does next."""

    OUT = "has to join"
    IN = "is a member"
    CRASHED = "does nothing"


class Consumer:
    """One consumer. It sends `revocation_steps` heartbeats before it revokes partitions."""

    def __init__(self, name: str, *, instance: str | None = None, revocation_steps: int = 1) -> None:
        self.name = name
        self.instance = instance
        self.revocation_steps = revocation_steps
        self.starts = 0
        self.member_id = f"{name}-0"
        self.epoch = 0
        self.state = ConsumerState.OUT
        self.names: list[str] | None = [EVENTS]
        self.regex: str | None = None
        self.has: set[tuple[bytes, int]] = set()
        """Owned partitions, by topic id and index."""
        self.told: set[tuple[bytes, int]] = set()
        """Partitions of the last assignment."""
        self.wait = 0
        self.full = False
        """Whether the next heartbeat has all fields, because the coordinator may not have got the last one."""
        self.former: list[tuple[str, int]] = []
        """Former member ids, each with its epoch."""

    def __repr__(self) -> str:
        return f"{self.name}({self.state.name}, {self.member_id!r}, {self.epoch}, {sorted(self.has)})"

    def go_on(self, driver: ConsumerDriver) -> None:
        """Does the next step of a consumer in its state."""
        if self.state is ConsumerState.CRASHED:
            return
        if self.state is ConsumerState.OUT:
            self._join(driver)
        else:
            self._live(driver)

    def leave(self, driver: ConsumerDriver, *, for_a_while: bool = False) -> None:
        """Sends a leave heartbeat, and stops without waiting for the answer."""
        if self.state is ConsumerState.IN:
            epoch = -2 if for_a_while and self.instance is not None else -1
            driver.maybe_beat(self.member_id, epoch, instance_id=self.instance)
        self.crash()

    def crash(self) -> None:
        """Stops the consumer without a request."""
        self._remember()
        self.state = ConsumerState.CRASHED
        self.has, self.told = set(), set()

    def restart(self) -> None:
        """Starts the consumer again, with a new member id."""
        self.crash()
        self.starts += 1
        self.member_id = f"{self.name}-{self.starts}"
        self.state = ConsumerState.OUT
        self.epoch = 0

    def commit(self, driver: ConsumerDriver, topic_id: bytes, partition: int, offset: int) -> ErrorCode | None:
        """Commits an offset of a partition."""
        return driver.commit(
            offset,
            member_id=self.member_id,
            generation=self.epoch,
            instance=self.instance,
            topic=name_of(topic_id),
            topic_id=topic_id,
            partition=partition,
        )

    def _join(self, driver: ConsumerDriver) -> None:
        self.has, self.told = set(), set()
        answer = driver.maybe_beat(
            self.member_id,
            0,
            instance_id=self.instance,
            rebalance_timeout_ms=30_000,
            subscribed_topic_names=self.names,
            subscribed_topic_regex=self.regex,
            topic_partitions=[],
        )
        if isinstance(answer, Beat) and answer.code is ErrorCode.NONE:
            self.state = ConsumerState.IN
        self._hear(answer)

    def _live(self, driver: ConsumerDriver) -> None:
        if self.has - self.told:
            if self.wait < self.revocation_steps:
                self.wait += 1
            else:
                self.has &= self.told
                self.wait = 0
        elif self.told - self.has:
            self.has |= self.told
        fields: dict[str, Any] = {}
        if self.full:
            fields = {
                "rebalance_timeout_ms": 30_000,
                "subscribed_topic_names": self.names,
                "subscribed_topic_regex": self.regex,
            }
        self._hear(
            driver.maybe_beat(
                self.member_id, self.epoch, instance_id=self.instance, topic_partitions=self._owned(), **fields
            )
        )

    def _owned(self) -> list[TopicPartitions]:
        by_topic: dict[bytes, list[int]] = {}
        for topic_id, partition in sorted(self.has):
            by_topic.setdefault(topic_id, []).append(partition)
        return [TopicPartitions(topic_id=each, partitions=partitions) for each, partitions in by_topic.items()]

    def _hear(self, answer: Beat | ErrorCode | None) -> None:
        if not isinstance(answer, Beat):
            # The answer is lost or is a retriable error, so the coordinator may have applied the heartbeat.
            self.full = True
            return
        if answer.code is ErrorCode.NONE:
            self.full = False
            if answer.epoch != self.epoch:
                self._remember()
                self.epoch = answer.epoch
            if answer.response.assignment is not None:
                topics = answer.response.assignment.topic_partitions
                self.told = {(topic.topic_id, index) for topic in topics for index in topic.partitions}
            return
        if answer.code in START_OVER:
            self._remember()
            self.has, self.told = set(), set()
            self.state, self.epoch = ConsumerState.OUT, 0
        elif answer.code is ErrorCode.FENCED_INSTANCE_ID:
            self.crash()
        else:
            assert answer.code is ErrorCode.UNRELEASED_INSTANCE_ID, answer

    def _remember(self) -> None:
        if self.state is ConsumerState.IN:
            self.former.append((self.member_id, self.epoch))
