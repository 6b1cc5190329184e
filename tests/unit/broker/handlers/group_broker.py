"""A broker with only a group coordinator, a transaction coordinator and topic metadata.

Each answer is encoded and decoded in the request's version, so that a test finds an answer that the version can't
carry.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Mapping
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from tests.unit.runtime.coordinator_world import CoordinatorWorld
from tests.unit.runtime.fake_ports import Pledge
from tests.unit.runtime.transaction_world import TransactionWorld

from klamm.broker.handler_context import BrokerContext, ConnectionInfo, RequestContext
from klamm.broker.partitions.partition_registry import PartitionRegistry
from klamm.broker.time_slices import Work
from klamm.config.broker_config import BrokerConfig
from klamm.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from klamm.protocol.api import API_SPECS, ApiKey
from klamm.protocol.codec import decode, encode
from klamm.protocol.message import Message
from klamm.protocol.types import BrokerId, LeaderEpoch, Millis, PartitionIndex, TopicId

__all__ = ["AUDIT_ID", "EVENTS_ID", "UNKNOWN_ID", "GroupBroker", "versions_of"]

EVENTS_ID, AUDIT_ID, UNKNOWN_ID = TopicId(b"e" * 16), TopicId(b"a" * 16), TopicId(b"?" * 16)
BROKER = BrokerId(1)
NOT_THERE = cast(Any, None)

M = TypeVar("M", bound=Message)


def versions_of(key: ApiKey) -> range:
    """Returns all versions of an API that the broker serves."""
    spec = API_SPECS[key]
    return range(spec.min_version, spec.max_version + 1)


def topic(name: str, topic_id: TopicId, partitions: int, leader: BrokerId = BROKER) -> TopicImage:
    """Returns a topic that this broker leads by default."""
    return TopicImage(
        name,
        topic_id,
        tuple(
            PartitionImage(PartitionIndex(index), leader, LeaderEpoch(0), (leader,), (leader,))
            for index in range(partitions)
        ),
    )


class GroupBroker:
    """A broker with the topics `events` (two partitions) and `audit` (one partition), and with `__consumer_offsets`
    unless `has_offsets_topic` is false."""

    def __init__(
        self, *, has_offsets_topic: bool = True, partitions: int = 3, config: BrokerConfig | None = None
    ) -> None:
        self.world = CoordinatorWorld(partitions=partitions)
        self.transactions = TransactionWorld()
        self._transactions_topic = topic("__transaction_state", TopicId(b"t" * 16), 1)
        self._offsets_topic = topic("__consumer_offsets", TopicId(b"o" * 16), partitions)
        self.created: list[str] = []
        self.metadata = SimpleNamespace(image=MetadataImage())
        self.show(topic("events", EVENTS_ID, 2), topic("audit", AUDIT_ID, 1))
        if has_offsets_topic:
            self.show(self._offsets_topic)
        self._context = BrokerContext(
            config=BrokerConfig() if config is None else config,
            node_id=BROKER,
            clock=lambda: Millis(0),
            metadata=cast(Any, self.metadata),
            log_directory=NOT_THERE,
            # The broker leads no partition that could be offline.
            partitions=PartitionRegistry(BROKER, NOT_THERE, NOT_THERE),
            fetch_sessions=NOT_THERE,
            groups=self.world.coordinator,
            transactions=self.transactions.coordinator,
            transaction_markers=NOT_THERE,
            transaction_verifier=self.transactions.coordinator,
            ensure_internal_topic=self._ensure_internal_topic,
            warm_reads=NOT_THERE,
        )

    async def _ensure_internal_topic(self, name: str) -> None:
        self.created.append(name)
        self.show(self._offsets_topic if name == "__consumer_offsets" else self._transactions_topic)

    def show(self, *topics: TopicImage) -> None:
        """Adds topics to the metadata."""
        image = cast(MetadataImage, self.metadata.image)
        by_name: Mapping[str, TopicImage] = {**image.topics, **{each.name: each for each in topics}}
        self.metadata.image = MetadataImage(
            topics=by_name,
            topics_by_id={each.topic_id: each for each in by_name.values()},
            brokers={BROKER: BrokerImage(BROKER, "registered", 9092, None, 1)},
        )
        self.world.coordinator.on_metadata_update(image, self.metadata.image)

    def request(self, key: ApiKey, version: int) -> RequestContext:
        """Returns the context of a request from a client that reaches this broker as reached:1234."""
        connection = ConnectionInfo("10.0.0.1", "10.0.0.1:50000", "reached", 1234)
        return RequestContext(self._context, connection, key, version, "app")

    def ask(self, module: Any, request: Message, version: int) -> Any:
        """Returns the answer as a client decodes it, or None if there is no answer yet. The clock advances a little."""
        key = ApiKey(cast(int, request.API_KEY))
        arrived, _ = decode(type(request), version, encode(request, version))
        answer = module.handle(self.request(key, version), arrived)
        if isinstance(answer, Generator):
            answer = self._finish(answer)
        self.world.timers.advance(1)
        if hasattr(answer, "__await__"):
            answer = _result_of(answer)
        return None if answer is None else travelled(answer, version)

    def _finish(self, work: Work[M]) -> M | None:
        try:
            while True:
                awaited = next(work)
                if awaited is not None:
                    self.world.timers.advance(1)
                    if _result_of(awaited.settle(), missing=awaited) is awaited:
                        return None
        except StopIteration as finished:
            return cast(M, finished.value)


def _result_of(answer: Awaitable[Any], missing: Any = None) -> Any:
    if isinstance(answer, Pledge):
        return answer.result
    waiting = answer.__await__()
    try:
        next(waiting)
    except StopIteration as finished:
        return finished.value
    return missing


def travelled(message: M, version: int) -> M:
    """Returns the message after encoding and decoding in a version."""
    arrived, _ = decode(type(message), version, encode(message, version))
    return arrived
