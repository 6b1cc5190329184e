"""Tests the checks of lookups with answers made by hand: what a leader must know, and what one need not know that has
not heard of its successor."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from random import Random
from types import SimpleNamespace as Stub
from typing import Any, cast

import pytest
from tests.simulation.brokers.client_world import OutdatedLeader
from tests.simulation.brokers.clients.lookups import Lookups
from tests.simulation.brokers.model import Batch, PartitionModel
from tests.simulation.violation import Violation

from klamm.client.cluster_view import PartitionLeader
from klamm.client.list_offsets import ListedOffset
from klamm.protocol.schema.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from klamm.protocol.types import BrokerId, LeaderEpoch, Millis, Offset, PartitionIndex, TopicPartition

WHERE = TopicPartition("topic", PartitionIndex(0))
FORMER, LEADER = BrokerId(1), BrokerId(2)
NOTHING = ListedOffset(Offset(-1), Millis(-1), LeaderEpoch(-1))


class _Lookup:
    """A lookup in a partition with the records 0 to 4, at the times 1,000 to 1,004.

    Broker 2 leads it in epoch 1 from offset 3 on. Broker 1 has led it before, up to its high watermark 3, has two more
    records of its own, and has not heard of broker 2. `asked`: the broker that answers; None if the client knows no
    leader.
    """

    def __init__(self, asked: BrokerId | None, answer: ListedOffset | EpochEndOffset) -> None:
        self._answer: Any = answer
        self.model = PartitionModel(epochs={0: 0, 1: 0, 2: 0, 3: 1, 4: 1}, high_watermark=5)
        for offset in range(5):
            value = b"%d" % offset
            self.model.known[offset] = value
            self.model.of_value[value] = Batch(WHERE, "producer", (value,), 1_000 + offset, is_idempotent=True)
        leader = None if asked is None else PartitionLeader(asked, LeaderEpoch(asked - FORMER))
        client = Stub(leader_of=lambda where: leader, run=self._list, ask=self._tell_epoch)
        self.plan = Stub(has_large_batches=False, request_timeout_ms=1_000)
        world = Stub(
            loop=Stub(random=Random(1), now_ms=0.0),
            plan=self.plan,
            addresses=(("broker", 9092),),
            make_client=lambda config, ceilings: client,
            add=lambda participant: None,
            notes=Stub(add=lambda *line: None),
            model=Stub(partitions={WHERE: self.model}),
            life=1,
            outdated_leaders=lambda where: {FORMER: OutdatedLeader(0, 3)},
            first_undecided=lambda where: None,
        )
        self.lookups = Lookups(cast("Any", world), "lookups")

    async def _list(self, steps: object) -> dict[TopicPartition, ListedOffset]:
        return {WHERE: self._answer}

    async def _tell_epoch(self, *request: object) -> OffsetForLeaderEpochResponse:
        return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(partitions=[self._answer])])


def _check(checking: Coroutine[Any, Any, None]) -> None:
    asyncio.run(checking)


def _found(offset: int) -> ListedOffset:
    return ListedOffset(Offset(offset), Millis(1_000 + offset), LeaderEpoch(0))


def _look_up_time(asked: BrokerId | None, time_ms: int, answer: ListedOffset) -> None:
    _check(_Lookup(asked, answer).lookups._look_up_time(WHERE, Millis(time_ms)))


def _look_up_end(asked: BrokerId | None, end: int) -> None:
    answer = ListedOffset(Offset(end), Millis(-1), LeaderEpoch(0))
    _check(_Lookup(asked, answer).lookups._look_up_end(WHERE, is_committed=False))


def _look_up_epoch(asked: BrokerId, epoch: int, end: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lookup = _Lookup(asked, EpochEndOffset(leader_epoch=LeaderEpoch(epoch), end_offset=end))
    # The client draws an epoch, and a difference.
    monkeypatch.setattr(lookup.lookups, "random", Stub(choice=lambda each: epoch if each == [0, 1] else 0))
    _check(lookup.lookups._look_up_epoch(WHERE))


@pytest.mark.parametrize("asked", [FORMER, None])
def test_a_former_leader_need_not_know_what_its_successor_has_committed(asked: BrokerId | None) -> None:
    """A lookup by time finds nothing at or after the former leader's high watermark."""
    _look_up_time(asked, 1_003, NOTHING)
    _look_up_time(asked, 1_002, _found(2))


@pytest.mark.parametrize(
    ("asked", "time_ms", "answer", "text"),
    [
        pytest.param(LEADER, 1_003, NOTHING, "has nothing at or after 1003, and 3 is", id="the leader, nothing"),
        pytest.param(LEADER, 1_003, _found(4), "is 4 of 1004; 3 is known", id="the leader, a later record"),
        pytest.param(FORMER, 1_002, NOTHING, "has nothing at or after 1002, and 2 is", id="a former leader, nothing"),
        pytest.param(FORMER, 1_001, _found(2), "is 2 of 1002; 1 is known", id="a former leader, a later record"),
        pytest.param(FORMER, 1_003, _found(2), "is 2 of 1002", id="a former leader, an earlier record"),
    ],
)
def test_a_lookup_by_time_must_find_what_its_leader_has_committed(
    asked: BrokerId, time_ms: int, answer: ListedOffset, text: str
) -> None:
    """A lookup by time finds the first known record; a former leader knows those below its high watermark (I9)."""
    with pytest.raises(Violation, match=text) as raised:
        _look_up_time(asked, time_ms, answer)
    assert raised.value.invariant == 9


def test_the_end_of_a_partition_does_not_fall_below_the_high_watermark_of_its_leader() -> None:
    """The end is not lower than any that was told before; a former leader need not know its successor's (I5)."""
    _look_up_end(LEADER, 5)
    _look_up_end(FORMER, 3)
    for asked, end in ((LEADER, 4), (FORMER, 2)):
        with pytest.raises(Violation, match=f"ends at {end}, and a reader was told of {end + 1}"):
            _look_up_end(asked, end)


def test_a_former_leader_tells_the_end_of_its_own_log_for_its_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A former leader does not know that its epoch ended before its last records. It knows its own records (I1)."""
    _look_up_epoch(LEADER, 0, 3, monkeypatch)
    _look_up_epoch(FORMER, 0, 5, monkeypatch)
    with pytest.raises(Violation, match="epoch 0 ended at 5, and has epoch 1 at offset 3"):
        _look_up_epoch(LEADER, 0, 5, monkeypatch)
    with pytest.raises(Violation, match="epoch 0 ended at 2, and has epoch 0 at offset 2"):
        _look_up_epoch(FORMER, 0, 2, monkeypatch)
