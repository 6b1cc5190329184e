"""Tests what worlds of replicas accept from a broker that leads in its own metadata only: it may deny an offset that is
committed, and does not know where its leader epoch ended."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace as Stub
from typing import Any, cast

import pytest
from tests.simulation.brokers.clients import streams
from tests.simulation.brokers.clients.client import Leader
from tests.simulation.brokers.clients.member import Member
from tests.simulation.brokers.clients.reader import Passing, Reader
from tests.simulation.brokers.clients.streams import StreamReader
from tests.simulation.brokers.model import Model
from tests.simulation.clusters.replicated import ReplicaWorld
from tests.simulation.violation import Violation

from klamm.client.errors import OffsetOutOfRange
from klamm.metadata.image import MetadataImage, PartitionImage, TopicImage
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from klamm.protocol.types import BrokerId, LeaderEpoch, Offset, PartitionIndex, TopicId, TopicPartition

ONE, TWO = BrokerId(1), BrokerId(2)
WHERE = TopicPartition("topic", PartitionIndex(0))
ADDRESS = ("broker-1", 9092)


def _image(leader: BrokerId, epoch: int) -> MetadataImage:
    partition = PartitionImage(PartitionIndex(0), leader, LeaderEpoch(epoch), (ONE, TWO), (ONE, TWO))
    return MetadataImage(topics={"topic": TopicImage("topic", TopicId(b"t" * 16), (partition,))})


class _World(ReplicaWorld):
    """Broker 1 has led the partition in epoch 3, and broker 2 leads it in epoch 4.

    Readers have read the records 5 and 6 of epoch 3, and 7 of epoch 4.
    """

    def __init__(  # the base class would start brokers
        self, *, known: int, has_timed_out: bool, high_watermark: int = 7
    ) -> None:
        self.addresses = (ADDRESS, ("broker-2", 9092))
        metadata = Stub(image=_image(ONE if known == 3 else TWO, known))
        partition = Stub(leads=known == 3, leader_epoch=known, log=Stub(high_watermark=high_watermark))
        partitions = Stub(by_name={"topic": Stub(partitions=[partition])})
        context = Stub(metadata=metadata, partitions=partitions)
        machines = {ONE: Stub(address=ADDRESS, is_alive=True, context=context)}
        self.machines = cast("Any", machines)
        self.checks = cast("Any", Stub(image=_image(TWO, 4)))
        self._sessions = cast("Any", {ONE: Stub(has_timed_out=has_timed_out, is_over=has_timed_out)})
        self.model = Model([WHERE], waits_for_disk=False)
        for offset, epoch in ((5, 3), (6, 3), (7, 4)):
            self.model.see(WHERE, offset, None, epoch)


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


class _Reader(Reader):
    """A reader at offset 7, after records of epoch 3. It validates its position at broker 1.

    The broker leads the partition in epoch `led`, and answers that epoch 3 ends at `end`.
    """

    def __init__(self, world: ReplicaWorld, led: int, end: int) -> None:  # the base class would open connections
        self.name = "reader"
        self.world = world
        self.positions = {WHERE: 7}
        self._epochs = {WHERE: 3}
        self.validated = self._validated = {}
        self._answer = EpochEndOffset(leader_epoch=LeaderEpoch(3), end_offset=end)
        leader = Stub(epoch=led, broker=ONE)
        self.client = cast("Any", Stub(leader_of=lambda where: leader, connections=self._connections))

    async def _connections(self, wheres: object) -> list[tuple[object, object]]:
        return [(Stub(address=ADDRESS, ask=self._ask), wheres)]

    async def _ask(self, *request: object) -> OffsetForLeaderEpochResponse:
        topic = OffsetForLeaderTopicResult(topic=WHERE.topic, partitions=[self._answer])
        return OffsetForLeaderEpochResponse(topics=[topic])

    async def validate(self) -> None:
        await self._validate()


@pytest.mark.parametrize("has_timed_out", [False, True])
def test_a_former_leader_that_knows_of_no_other_validates_positions_in_its_own_epoch(has_timed_out: bool) -> None:
    """It does not know that its epoch ended before its last records. The reader validates again in the next epoch."""
    reader = _Reader(_World(known=3, has_timed_out=has_timed_out), led=3, end=17)
    asyncio.run(reader.validate())
    assert reader.positions == {WHERE: 7}
    assert reader.validated == {WHERE: 3}


def test_a_former_leader_may_lack_records_that_its_successor_has_committed() -> None:
    """The successor had the last records of an earlier epoch, the former leader did not, and they were not committed
    under it. The reader asks again, and does not go back."""
    reader = _Reader(_World(known=3, has_timed_out=False, high_watermark=6), led=3, end=6)
    with pytest.raises(Passing, match="a former leader has fewer records"):
        asyncio.run(reader.validate())
    assert reader.positions == {WHERE: 7}
    assert reader.validated == {}


@pytest.mark.parametrize(
    ("known", "has_timed_out", "led", "end", "text"),
    [
        pytest.param(4, False, 4, 17, "I1: .* ended at 17, and has epoch 4 at offset 7", id="the present leader"),
        pytest.param(3, False, 3, 6, "I1: .* ended at 6, and has epoch 3 at offset 6", id="its own records"),
        pytest.param(4, False, 3, 7, "I6: topic-0 was validated in leader epoch 3, and 4 was known", id="it knows"),
        pytest.param(4, True, 3, 17, "I1: .* ended at 17, and has epoch 4 at offset 7", id="it knows, and has ended"),
    ],
)
def test_a_leader_validates_positions_by_all_leader_epochs_that_it_knows(
    known: int, has_timed_out: bool, led: int, end: int, text: str
) -> None:
    """No leader forgets its own records, or answers in an epoch that is over as far as it knows (I1, I6)."""
    reader = _Reader(_World(known=known, has_timed_out=has_timed_out), led=led, end=end)
    with pytest.raises(Violation, match=text):
        asyncio.run(reader.validate())
