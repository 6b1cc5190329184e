"""Provides a transaction coordinator on an in-memory log, with requests of producers and partitions for markers."""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Iterable, Mapping
from itertools import count
from typing import Any, TypeVar, cast

from tests.unit.runtime.fake_ports import ManualTimers, MemoryLog, Pledge, Pledges

from klamm.core.coordinator.shard_contract import ClientContext
from klamm.core.txn.additions import topics_of
from klamm.core.txn.coordinator_config import TransactionCoordinatorConfig
from klamm.core.txn.markers import TransactionMarker
from klamm.core.txn.shard import TransactionShard
from klamm.core.txn.transaction import Transaction
from klamm.core.txn.transaction_state import TransactionState
from klamm.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionImage, TopicImage
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Message
from klamm.protocol.schema.add_partitions_to_txn_request import AddPartitionsToTxnTransaction
from klamm.protocol.schema.end_txn_request import EndTxnRequest
from klamm.protocol.schema.end_txn_response import EndTxnResponse
from klamm.protocol.schema.init_producer_id_request import InitProducerIdRequest
from klamm.protocol.schema.init_producer_id_response import InitProducerIdResponse
from klamm.protocol.types import (
    BrokerId,
    LeaderEpoch,
    PartitionIndex,
    ProducerEpoch,
    ProducerId,
    TopicId,
    TopicPartition,
)
from klamm.runtime.answers import Answer
from klamm.runtime.transaction_coordinator import TransactionCoordinator

__all__ = ["E0", "E1", "ID", "P0", "MarkerLogs", "Tasks", "TransactionWorld", "close_unfinished"]

ID = "transfers"
P0 = PartitionIndex(0)
E0 = TopicPartition("events", P0)
E1 = TopicPartition("events", PartitionIndex(1))

M = TypeVar("M", bound=Message)

_unfinished: set[Coroutine[Any, Any, None]] = set()


def close_unfinished() -> None:
    """Closes the coroutines that a test has left unfinished, as a broker does when it stops."""
    while _unfinished:
        _unfinished.pop().close()


class Tasks:
    """A runner for coroutines, which continue when the manual clock advances."""

    def __init__(self, timers: ManualTimers) -> None:
        self._timers = timers

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        _unfinished.add(coroutine)

        def step() -> None:
            try:
                coroutine.send(None)
            except StopIteration:
                _unfinished.discard(coroutine)
                return
            self._timers.call_at(self._timers.now_ms() + 1, step)

        self._timers.call_soon(step)


class Turn:
    """An awaitable that completes in the next turn."""

    def __await__(self) -> Generator[None, None, None]:
        yield


class MarkerLogs:
    """The partitions that get markers: the markers that they have written, and the errors that they return instead."""

    def __init__(self) -> None:
        self.markers: list[TransactionMarker] = []
        self.written: list[tuple[TopicPartition, TransactionMarker]] = []
        self.refusals: dict[TopicPartition, ErrorCode] = {}
        self.fails = False
        self.held: Pledge | None = None

    async def write_markers(self, marker: TransactionMarker) -> Mapping[TopicPartition, ErrorCode]:
        self.markers.append(marker)
        if self.held is not None:
            await self.held
        if self.fails:
            raise RuntimeError("no way to the partitions")
        outcome = {each: self.refusals.get(each, ErrorCode.NONE) for each in marker.partitions}
        self.written += [(each, marker) for each, code in outcome.items() if code is ErrorCode.NONE]
        return outcome


class TransactionWorld:
    """A transaction coordinator on an in-memory log; `restart` gives a new coordinator on the same log."""

    def __init__(
        self,
        *,
        config: TransactionCoordinatorConfig | None = None,
        log: MemoryLog | None = None,
        marker_logs: MarkerLogs | None = None,
        producer_ids: count[int] | None = None,
        timers: ManualTimers | None = None,
        leader_epoch: int = 0,
    ) -> None:
        self.log = log or MemoryLog()
        self.timers = timers or ManualTimers()
        self.marker_logs = marker_logs or MarkerLogs()
        self.config = config or TransactionCoordinatorConfig()
        self.leader_epoch = leader_epoch
        self.producer_ids = producer_ids or count(1000)
        self.image = _image({"events": 3})
        self.has_producer_ids = True
        self.coordinator = TransactionCoordinator(
            config=self.config,
            log=self.log,
            timers=self.timers,
            wall_clock=self.timers.wall_clock,
            promises=Pledges(),
            spawn=Tasks(self.timers).spawn,
            markers=self.marker_logs,
            next_producer_id=self._next_producer_id,
            partition_count=lambda: 1,
        )
        self.coordinator.start()
        self.coordinator.on_metadata_update(EMPTY_IMAGE, self.image)
        self.coordinator.on_leadership(P0, LeaderEpoch(leader_epoch))
        self.timers.advance(0)

    async def _next_producer_id(self) -> ProducerId:
        while not self.has_producer_ids:
            await Turn()
        return ProducerId(next(self.producer_ids))

    @property
    def shard(self) -> TransactionShard:
        return self.coordinator._runtime._led[P0].shard

    def transaction(self, transactional_id: str = ID) -> Transaction:
        found = self.shard.store.find(transactional_id)
        assert found is not None
        return found

    def state(self) -> TransactionState:
        """Returns the state of the transaction of the default transactional id."""
        return self.transaction().state

    def show_topics(self, partition_counts: Mapping[str, int]) -> None:
        """Updates the coordinator's metadata to a cluster with these topics."""
        old, self.image = self.image, _image(partition_counts)
        self.coordinator.on_metadata_update(old, self.image)

    def settle(self) -> None:
        """Lets running work end; the clock advances too little for a timer of seconds."""
        self.timers.advance(10)

    def now(self, answer: Answer[M]) -> M:
        """Returns an answer that is available at once, or that comes when the clock advances."""
        if isinstance(answer, Message):
            return answer
        if isinstance(answer, Pledge):
            assert answer.result is not None, "no answer yet"
            return cast(M, answer.result)
        return cast(M, self.run(cast("Coroutine[Any, Any, M]", answer)))

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        for _ in range(1000):
            try:
                coroutine.send(None)
            except StopIteration as ended:
                return ended.value
            self.timers.advance(1)
        raise AssertionError("no answer yet")

    # Requests of producers

    def client(self, version: int) -> ClientContext:
        return ClientContext("producer", "/10.0.0.1", version)

    def init(
        self,
        transactional_id: str = ID,
        *,
        producer: tuple[int, int] = (-1, -1),
        timeout_ms: int = 60_000,
        version: int = 5,
    ) -> Answer[InitProducerIdResponse]:
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer[0],
            producer_epoch=producer[1],
        )
        return self.coordinator.init_producer_id(request, self.client(version))

    def inited(self, transactional_id: str = ID, **fields: Any) -> tuple[int, int]:
        """Initializes the transactional id; returns the granted producer id and epoch."""
        response = self.now(self.init(transactional_id, **fields))
        assert response.error_code == ErrorCode.NONE
        return response.producer_id, response.producer_epoch

    def init_code(self, transactional_id: str = ID, **fields: Any) -> ErrorCode:
        return ErrorCode(self.now(self.init(transactional_id, **fields)).error_code)

    def add(
        self,
        producer: tuple[int, int],
        partitions: Iterable[TopicPartition] = (E0,),
        transactional_id: str = ID,
        *,
        verify_only: bool = False,
        version: int = 3,
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Adds partitions to the transaction. Clients use versions up to 3, and brokers use later versions."""
        request = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            verify_only=verify_only,
            topics=topics_of(partitions),
        )
        result = self.now(self.coordinator.add_partitions_to_txn(request, self.client(version)))
        return {
            TopicPartition(topic.name, PartitionIndex(each.partition_index)): ErrorCode(each.partition_error_code)
            for topic in result.topic_results
            for each in topic.results_by_partition
        }

    def add_code(self, producer: tuple[int, int], *where: Any, **fields: Any) -> ErrorCode:
        (code,) = set(self.add(producer, *where, **fields).values())
        return code

    def add_by_broker(
        self, producer: tuple[int, int], partitions: Iterable[TopicPartition] = (E0,), *, verify_only: bool = False
    ) -> Mapping[TopicPartition, ErrorCode]:
        asked = self.coordinator.add_partitions(
            ID,
            ProducerId(producer[0]),
            ProducerEpoch(producer[1]),
            list(partitions),
            verify_only=verify_only,
        )
        return cast("Mapping[TopicPartition, ErrorCode]", self.run(asked))

    def end(
        self, producer: tuple[int, int], transactional_id: str = ID, *, commit: bool = True, version: int = 5
    ) -> Answer[EndTxnResponse]:
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=commit,
        )
        return self.coordinator.end_txn(request, self.client(version))

    def end_code(self, producer: tuple[int, int], *where: Any, **fields: Any) -> ErrorCode:
        return ErrorCode(self.now(self.end(producer, *where, **fields)).error_code)

    def ended(self, producer: tuple[int, int], *where: Any, **fields: Any) -> tuple[int, int]:
        """Ends the transaction, which must succeed; returns the producer id and epoch of the response."""
        response = self.now(self.end(producer, *where, **fields))
        assert response.error_code == ErrorCode.NONE
        return response.producer_id, response.producer_epoch

    def restart(self) -> TransactionWorld:
        """Returns a world with a new coordinator, which knows only the log."""
        self.coordinator.stop()
        return TransactionWorld(
            config=self.config,
            log=self.log,
            marker_logs=self.marker_logs,
            producer_ids=self.producer_ids,
            timers=self.timers,
            leader_epoch=self.leader_epoch + 1,
        )


def _image(partition_counts: Mapping[str, int]) -> MetadataImage:
    topics = {
        name: TopicImage(
            name=name,
            topic_id=TopicId(name.encode().ljust(16, b"\x00")),
            partitions=tuple(
                PartitionImage(PartitionIndex(index), BrokerId(1), LeaderEpoch(0), (BrokerId(1),), (BrokerId(1),))
                for index in range(partitions)
            ),
        )
        for name, partitions in partition_counts.items()
    }
    return MetadataImage(topics=topics, topics_by_id={topic.topic_id: topic for topic in topics.values()})
