"""Tests when worlds of replicas let a broker deny an offset that is committed: it leads in its own metadata only."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace as Stub
from typing import Any, cast

import pytest
from tests.simulation.brokers.clients import streams
from tests.simulation.brokers.clients.client import Leader
from tests.simulation.brokers.clients.member import Member
from tests.simulation.brokers.clients.streams import StreamReader
from tests.simulation.clusters.replicated import ReplicaWorld
from tests.simulation.violation import Violation

from klamm.client.errors import OffsetOutOfRange
from klamm.metadata.image import MetadataImage, PartitionImage, TopicImage
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import BrokerId, LeaderEpoch, Offset, PartitionIndex, TopicId, TopicPartition

ONE, TWO = BrokerId(1), BrokerId(2)
WHERE = TopicPartition("topic", PartitionIndex(0))
ADDRESS = ("broker-1", 9092)


def _image(leader: BrokerId, epoch: int) -> MetadataImage:
    partition = PartitionImage(PartitionIndex(0), leader, LeaderEpoch(epoch), (ONE, TWO), (ONE, TWO))
    return MetadataImage(topics={"topic": TopicImage("topic", TopicId(b"t" * 16), (partition,))})


class _World(ReplicaWorld):
    """Broker 1 has led the partition in epoch 3, and broker 2 leads it in epoch 4."""

    def __init__(self, *, known: int, has_timed_out: bool) -> None:  # the base class would start brokers
        self.addresses = (ADDRESS, ("broker-2", 9092))
        metadata = Stub(image=_image(ONE if known == 3 else TWO, known))
        self.machines = cast("Any", {ONE: Stub(context=Stub(metadata=metadata))})
        self.checks = cast("Any", Stub(image=_image(TWO, 4)))
        self._sessions = cast("Any", {ONE: Stub(has_timed_out=has_timed_out)})


@pytest.mark.parametrize(
    ("asked", "known", "has_timed_out", "may_lack"),
    [
        pytest.param(3, 3, False, True, id="it has not heard of its successor"),
        pytest.param(3, 3, True, False, id="its session has timed out"),
        pytest.param(3, 4, False, False, id="it knows that it does not lead"),
        pytest.param(4, 4, False, False, id="the newest epoch"),
        pytest.param(-1, 3, False, False, id="a client that names no epoch"),
    ],
)
def test_only_a_leader_that_knows_of_no_other_may_lack_records(
    asked: int, known: int, has_timed_out: bool, may_lack: bool
) -> None:
    """The leader of the newest epoch has all committed records. A former one does not know that it lacks some, unless
    it knows the next leader, or its clock tells that there may be one."""
    world = _World(known=known, has_timed_out=has_timed_out)
    assert world.may_lack_committed(WHERE, asked, ADDRESS) == may_lack


class _Member(Member):
    """A member at offset 7, whose fetch is answered with OFFSET_OUT_OF_RANGE."""

    def __init__(self, *, may_lack: bool, deleted: int = 0) -> None:  # the base class would open connections
        self.name = "member"
        self.random = cast("Any", Stub(choice=min))
        self.positions = {WHERE: 7}
        self.doubted: list[object] = []
        self.client = cast("Any", Stub(forget=self.doubted.append, refreshing=list, run=self._run))
        partitions = {WHERE: Stub(deleted=deleted)}
        plan = Stub(may_lose=False, topics={})
        self.world = cast("Any", Stub(plan=plan, model=Stub(partitions=partitions)))
        self._may_lack = may_lack

    async def _run(self, steps: object) -> None:
        """Refreshes nothing."""

    async def _fetch(self, where: TopicPartition, position: int) -> Any:
        return Stub(error_code=ErrorCode.OFFSET_OUT_OF_RANGE), self._may_lack

    async def join(self) -> None: ...
    async def beat(self) -> None: ...
    async def leave(self) -> None: ...
    async def read_some(self) -> None:
        await self._read_some()


def test_a_member_that_an_outdated_leader_denies_its_offset_looks_for_the_next_leader() -> None:
    """The member keeps its position: the next leader has the offset."""
    member = _Member(may_lack=True)
    asyncio.run(member.read_some())
    assert member.positions == {WHERE: 7}
    assert member.doubted == [Leader(WHERE)]


def test_no_other_leader_denies_the_offset_of_a_member() -> None:
    """A committed offset is there for the next owner of the partition (I17)."""
    with pytest.raises(Violation, match="I17: member has gone on from offset 7 of topic-0, which is not there"):
        asyncio.run(_Member(may_lack=False).read_some())


def test_a_member_passes_over_deleted_records() -> None:
    """Records were deleted beyond the position."""
    member = _Member(may_lack=False, deleted=9)
    asyncio.run(member.read_some())
    assert member.positions == {WHERE: 9}


class _Stream:
    """A stream of one offset, which the first of two brokers denies."""

    def __init__(self, *_: object) -> None:
        self.answers = 0

    @property
    def is_finished(self) -> bool:
        return self.answers == 2

    def received(self, *_: object) -> object:
        self.answers += 1
        if self.answers == 1:
            raise OffsetOutOfRange(WHERE, Offset(7))
        return Stub()

    def pause_after(self, error: Exception) -> float:
        return 0.0

    def check_exists(self) -> None: ...
    def resumed(self, *_: object) -> None: ...
    def close(self, *_: object) -> None: ...


class _StreamReader(StreamReader):
    """A reader whose first answer comes from an outdated leader, or from the present one."""

    def __init__(self, *, is_outdated: bool) -> None:  # the base class would open connections
        model = Stub(partitions={WHERE: Stub(cuts=[], deleted=0)})
        self.world = cast("Any", Stub(model=model, is_over=False, may_lack_committed=lambda *_: is_outdated))
        self.client = cast("Any", Stub(refreshing=list, run=self._pass, epoch_of=lambda where: 3))
        self.name = "stream"

    async def _pass(self, *_: object) -> Any:
        """Does nothing."""

    async def _send(self, stream: object, where: TopicPartition) -> Any:
        return Stub(receive=self._pass, address=ADDRESS), Stub(pending=None)

    def _take(self, *_: object) -> int:
        return 8

    def note(self, template: str, *values: object) -> None: ...
    async def read(self) -> None:
        await self._read_or_lose(WHERE, 7, 8)


@pytest.mark.parametrize("is_outdated", [True, False])
def test_only_an_outdated_leader_denies_the_offset_of_a_stream(
    monkeypatch: pytest.MonkeyPatch, is_outdated: bool
) -> None:
    """The stream asks the next leader, which has the offset; the present leader must have it."""
    monkeypatch.setattr(streams, "PartitionStream", _Stream)
    reader = _StreamReader(is_outdated=is_outdated)
    if is_outdated:
        asyncio.run(reader.read())
    else:
        with pytest.raises(Violation, match="I26: stream reads what is there, and: OFFSET_OUT_OF_RANGE"):
            asyncio.run(reader.read())
