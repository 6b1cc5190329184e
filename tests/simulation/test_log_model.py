"""Tests that the plain model of a coordinator's log agrees with klamm's store, and detects a store that replays
wrongly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from tests.simulation.checkers.log_model import LogModel

from klamm.core.coordinator.shard_contract import CoordinatorRecord
from klamm.core.group.classic import classic_store
from klamm.core.group.classic.group_metadata import (
    GroupMetadata,
    MemberMetadata,
    group_metadata,
    group_metadata_record,
    group_tombstone,
)
from klamm.core.group.consumer import replay as consumer_replay
from klamm.core.group.consumer.consumer_group import ConsumerGroup
from klamm.core.group.consumer.consumer_group_records import (
    ResolvedRegex,
    current_assignment_record,
    current_assignment_tombstone,
    epoch_record,
    member_record,
    member_tombstone,
    regex_record,
    regex_tombstone,
    target_epoch_record,
    target_record,
    target_tombstone,
)
from klamm.core.group.consumer.member import ConsumerGroupMember
from klamm.core.group.group_kinds import empty_store
from klamm.core.group.group_store import GroupStore
from klamm.core.group.offsets.offset_records import offset_commit_record, offset_tombstone
from klamm.protocol.types import Generation, LeaderEpoch, Millis, Offset, PartitionIndex, ProducerId, TopicId

TOPICS = {name: TopicId(name.encode().ljust(16, b"\0")) for name in ("events", "clicks")}
NO_PRODUCER = ProducerId(-1)


class Log:
    """Random records, which are given to a store and to the model."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.store = empty_store()
        self.model = LogModel()
        self.end = 0

    def write(self, record: CoordinatorRecord, producer_id: ProducerId = NO_PRODUCER) -> None:
        """Appends a record."""
        self.model.apply(self.end, producer_id, record)
        self.store.replay(Offset(self.end), producer_id, record)
        self.end += 1

    def go_on(self, steps: int) -> str | None:
        """Writes records until the store and the model differ; returns the difference, or None."""
        actions: list[Callable[[], None]] = [
            *(self.commit, self.commit, self.commit, self.remove_offset, self.end_transaction),
            *(self.change_classic_group, self.change_member, self.change_member, self.change_group, self.drop_member),
        ]
        for _ in range(steps):
            self.random.choice(actions)()
            what = self.model.changes(self.store)
            if what is not None:
                return what
        return self.model.everything(self.store)

    def _place(self) -> tuple[str, str, PartitionIndex]:
        choice = self.random.choice
        return choice(("classic", "consumer", "simple")), choice(list(TOPICS)), PartitionIndex(choice((0, 1)))

    def commit(self) -> None:
        """Commits an offset, in a transaction or not."""
        group_id, topic, partition = self._place()
        record = offset_commit_record(
            group_id,
            topic,
            partition,
            offset=Offset(self.random.randrange(100)),
            leader_epoch=LeaderEpoch(self.random.choice((-1, 3))),
            metadata=self.random.choice(("", "text")),
            commit_timestamp_ms=Millis(self.end),
            expire_timestamp_ms=Millis(9) if self.random.random() < 0.2 else None,
            topic_id=TOPICS[topic],
        )
        self.write(record, ProducerId(self.random.choice((-1, -1, 1, 2))))

    def remove_offset(self) -> None:
        """Writes the tombstone of an offset, which need not exist."""
        self.write(offset_tombstone(*self._place()))

    def end_transaction(self) -> None:
        """Ends a transaction, which need not be open."""
        producer_id, is_commit = ProducerId(self.random.choice((1, 2))), self.random.random() < 0.5
        self.model.end_transaction(producer_id, is_commit=is_commit)
        self.store.replay_end_transaction_marker(producer_id, is_commit)
        self.end += 1

    def change_classic_group(self) -> None:
        """Writes a new generation of the classic group, or its tombstone."""
        if self.random.random() < 0.2:
            self.write(group_tombstone("classic"))
            return
        members = tuple(
            MemberMetadata(f"m-{index}", None, "client", "/10.0.0.1", 100 + index, 200, b"s", b"%d" % self.end)
            for index in range(self.random.randrange(3))
        )
        timestamp = self.random.choice((None, Millis(self.end)))
        metadata = GroupMetadata(Generation(self.end), "consumer", "range", "m-0", timestamp, members)
        self.write(group_metadata_record("classic", metadata))

    def change_group(self) -> None:
        """Writes epochs, targets and regular expressions of the consumer group."""
        name = f"n-{self.random.randrange(3)}"
        target = {TOPICS["events"]: frozenset({PartitionIndex(self.random.randrange(3))})}
        regex = ResolvedRegex(frozenset(self.random.sample(list(TOPICS), 1)), self.end, Millis(self.end))
        self.write(
            self.random.choice(
                (
                    epoch_record("consumer", self.end, self.random.randrange(5)),
                    target_epoch_record("consumer", self.end, Millis(self.end)),
                    target_record("consumer", name, target),
                    target_tombstone("consumer", name),
                    regex_record("consumer", "e.*", regex),
                    regex_tombstone("consumer", "e.*"),
                )
            )
        )

    def change_member(self) -> None:
        """Writes a member with other topics or other partitions."""
        index = self.random.randrange(3)
        member = ConsumerGroupMember(
            f"n-{index}",
            member_epoch=self.end,
            previous_member_epoch=self.end - 1,
            instance_id=self.random.choice((None, f"instance-{index}")),
            client_id="client",
            subscribed_topic_names=frozenset(self.random.sample(list(TOPICS), self.random.randrange(3))),
            rebalance_timeout_ms=1_000 + self.end,
            # Each member has its own partition, which no other member has.
            assigned={TOPICS["events"]: {PartitionIndex(index): self.end}} if self.random.random() < 0.7 else {},
            pending_revocation={TOPICS["clicks"]: {PartitionIndex(index): 1}} if self.random.random() < 0.4 else {},
        )
        self.write(member_record("consumer", member))
        self.write(current_assignment_record("consumer", member))

    def drop_member(self) -> None:
        """Removes a member, with all its records."""
        name = f"n-{self.random.randrange(3)}"
        for tombstone in (current_assignment_tombstone, target_tombstone, member_tombstone):
            self.write(tombstone("consumer", name))


@pytest.mark.parametrize("seed", range(40))
def test_the_model_agrees_with_a_store_that_is_right(seed: int) -> None:
    """The model agrees with a correct store after each record, and at the end in everything."""
    assert Log(seed).go_on(150) is None


@contextmanager
def _replaying(change: Callable[[GroupStore, Offset, ProducerId, CoordinatorRecord], Any]) -> Iterator[None]:
    replay = GroupStore.replay

    def replay_wrongly(store: GroupStore, offset: Offset, producer_id: ProducerId, record: CoordinatorRecord) -> None:
        replay(store, *change(store, offset, producer_id, record))

    with patch.object(GroupStore, "replay", replay_wrongly):
        yield


BUGS: dict[str, Callable[[], Any]] = {
    "offsets of a transaction are visible before its marker": lambda: _replaying(
        lambda store, offset, producer_id, record: (offset, NO_PRODUCER, record)
    ),
    "a tombstone leaves the offset": lambda: patch.object(GroupStore, "_drop_offset", lambda *_: None),
    "an aborted transaction's offsets stand": lambda: patch.object(
        GroupStore,
        "replay_end_transaction_marker",
        lambda store, producer_id, committed, original=GroupStore.replay_end_transaction_marker: original(
            store, producer_id, True
        ),
    ),
    "markers are forgotten": lambda: patch.object(GroupStore, "replay_end_transaction_marker", lambda *_: None),
    "a record is taken for one at another offset": lambda: _replaying(
        lambda store, offset, producer_id, record: (Offset(offset + 1), producer_id, record)
    ),
    "a group keeps its former leader": lambda: patch.object(
        classic_store, "group_metadata", lambda value: group_metadata(value)._replace(leader_id="m-1")
    ),
    "a member keeps what it had": lambda: patch.object(
        consumer_replay, "with_assignment", lambda member, value: member._replace(member_epoch=value.member_epoch)
    ),
    "a member is never dropped": lambda: patch.object(ConsumerGroup, "drop_member", lambda *_: None),
    "owners are forgotten": lambda: patch.object(ConsumerGroup, "_own", lambda *_: None),
    "a target is never taken away": lambda: patch.object(
        ConsumerGroup,
        "set_target",
        lambda group, member_id, target, original=ConsumerGroup.set_target: original(
            group, member_id, target or group.target.get(member_id)
        ),
    ),
    "the hash of the topics is forgotten": lambda: patch.object(
        ConsumerGroup,
        "set_epoch",
        lambda group, epoch, metadata_hash, original=ConsumerGroup.set_epoch: original(group, epoch, 0),
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_store_that_replays_wrongly_is_found_out(bug: str) -> None:
    """The model detects each of these replay bugs. A second store of the same class would have the same bug."""
    with BUGS[bug]():
        logs = [Log(seed) for seed in range(20)]
        assert any(log.go_on(150) is not None for log in logs)


def test_a_tombstone_that_a_cleaner_removed_too_early_is_missed() -> None:
    """The model detects an offset whose tombstone is missing: a replay of the log without the tombstone restores the
    offset.
    """
    log = Log(1)
    while not log.store.offsets:
        log.commit()
    group_id, topics = next(iter(log.store.offsets.items()))
    topic, partitions = next(iter(topics.items()))
    log.model.apply(log.end, NO_PRODUCER, offset_tombstone(group_id, topic, next(iter(partitions))))
    what = log.model.everything(log.store)
    assert what is not None
    assert f"offset of group {group_id} for {topic}-" in what
    assert "the log None" in what


def test_a_report_names_group_and_partition() -> None:
    """A report names the group, the partition, and the values of both sides."""
    with BUGS["offsets of a transaction are visible before its marker"]():
        log = Log(1)
        record = offset_commit_record(
            "simple",
            "events",
            PartitionIndex(0),
            offset=Offset(7),
            leader_epoch=LeaderEpoch(-1),
            metadata="",
            commit_timestamp_ms=Millis(5),
            expire_timestamp_ms=None,
            topic_id=TOPICS["events"],
        )
        log.write(record, ProducerId(1))
        what = log.model.changes(log.store)
    assert what is not None
    assert what.splitlines()[0].startswith("offset of group simple for events-0: klamm CommittedOffset(offset=7, ")
    assert "pending offsets of producer 1 · group simple for events-0: klamm nothing, the log Committed" in what
