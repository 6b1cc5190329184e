"""Two brokers over one metadata store on one event loop, without sockets: tests move the leaders of partitions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TypeVar

from klamm.broker.handler_context import BrokerContext, ConnectionInfo
from klamm.broker.network.dispatch import Dispatcher
from klamm.broker.partitions.partition import Partition
from klamm.broker.services.broker_services import BrokerServices
from klamm.config.broker_config import BrokerConfig
from klamm.metadata.entries import put_broker, put_live, put_partition
from klamm.metadata.memory_store import MemoryMetadata, MemoryStore
from klamm.metadata.service import NewTopic
from klamm.protocol.api import ApiKey
from klamm.protocol.codec import decode, encode
from klamm.protocol.compression import OpenedData
from klamm.protocol.fetch_client import FetchResponse, decode_fetch_response, encode_fetch_request
from klamm.protocol.fetch_messages import FetchRequest
from klamm.protocol.headers import encode_request_header
from klamm.protocol.message import Message
from klamm.protocol.produce import ProduceRequest
from klamm.protocol.produce_client import ProduceResponse, decode_produce_response, encode_produce_request
from klamm.protocol.types import BrokerId, LeaderEpoch, Millis

__all__ = ["NOW_MS", "TwoBrokers"]

M = TypeVar("M", bound=Message)

NOW_MS = Millis(1_700_000_000_000)


class _Waiting:
    """An opening that waits for a test."""

    records_count = cost = max_bytes = compressed_bytes = 0

    def __init__(self, release: threading.Event) -> None:
        self._release = release

    def open_within(self, max_bytes: int) -> OpenedData:
        assert self._release.wait(60), "the test never released the thread"
        return OpenedData(memoryview(b""), True)

    def steps(self, opened: OpenedData) -> Generator[None, None, None]:
        yield


class TwoBrokers:
    """Brokers 1 and 2 with the services of real brokers. Requests go straight to the dispatcher of a broker."""

    def __init__(self, path: Path, config: BrokerConfig) -> None:
        self._metadata = MemoryMetadata()
        self._store: MemoryStore = self._metadata.connect()
        self._services = {
            node_id: BrokerServices(
                replace(config, node_id=BrokerId(node_id), log_dirs=(path / str(node_id),)), lambda: NOW_MS
            )
            for node_id in (1, 2)
        }
        self._dispatchers: dict[int, Dispatcher] = {}
        self._sessions: list[MemoryStore] = []
        self._connection = ConnectionInfo("127.0.0.1", "127.0.0.1:1", "localhost", 9092)

    @classmethod
    @asynccontextmanager
    async def start(cls, path: Path, **config: Any) -> AsyncIterator[Self]:
        """Starts both brokers; `config` has fields of `BrokerConfig`."""
        brokers = cls(
            path, BrokerConfig(offsets_topic_num_partitions=1, transaction_state_log_num_partitions=1, **config)
        )
        try:
            for node_id, services in brokers._services.items():
                brokers._dispatchers[node_id] = Dispatcher(await services.start(brokers._connect))
            yield brokers
        finally:
            for services in brokers._services.values():
                await services.stop()

    async def _connect(self) -> MemoryStore:
        self._sessions.append(self._metadata.connect())
        return self._sessions[-1]

    async def lose_session(self, node_id: int) -> None:
        """Ends the session of a broker with the metadata store, as if it had not been heard of for too long."""
        self._sessions[node_id - 1].lose()
        await self.settle()

    def context(self, node_id: int) -> BrokerContext:
        context = self._services[node_id].context
        assert context is not None
        return context

    def partition(self, node_id: int, topic: str, index: int = 0) -> Partition:
        """Returns the partition of a broker that leads it."""
        return self.context(node_id).partitions.get(topic, index)

    async def create(
        self, name: str, partitions: int = 1, leader: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        """Creates a topic whose partitions are all led by one broker, without a replica on the other one."""
        assignments = [(index, [leader]) for index in range(partitions)]
        await self.context(leader).metadata.create_topics(
            [NewTopic(name, assignments=assignments, configs=configs or {})]
        )
        await self.settle()

    async def create_internal(self, name: str, leader: int = 1) -> None:
        """Creates an internal topic of one partition, led by one broker."""
        await self.context(leader).ensure_internal_topic(name)
        await self.move(name, leader)

    async def move(
        self, topic: str, leader: int, *, index: int = 0, replicas: Sequence[int] | None = None, settle: bool = True
    ) -> None:
        """Makes a broker lead a partition under the next leader epoch; `replicas` are by default the leader alone."""
        image = self.context(1).metadata.image.topics[topic]
        before = image.partitions[index]
        members = tuple(BrokerId(each) for each in (replicas or [leader]))
        epoch = LeaderEpoch(before.leader_epoch + 1)
        after = replace(before, leader=BrokerId(leader), leader_epoch=epoch, replicas=members, isr=members)
        await self._store.transact({}, [put_partition(image.topic_id, after)])
        if settle:
            await self.settle()

    async def shrink(self, topic: str, replicas: Sequence[int], isr: Sequence[int]) -> None:
        """Changes the replicas of partition 0 of a topic, but not its leader epoch."""
        image = self.context(1).metadata.image.topics[topic]
        members, in_sync = (tuple(map(BrokerId, each)) for each in (replicas, isr))
        after = replace(image.partitions[0], replicas=members, isr=in_sync)
        await self._store.transact({}, [put_partition(image.topic_id, after)])
        await self.settle()

    async def register(self, broker_id: BrokerId) -> None:
        """Makes a further broker live in the metadata, without a process or address that answers."""
        endpoints = {self._connection.listener_name: ("127.0.0.1", 1)}
        changes = [put_broker(broker_id, endpoints, None), put_live(broker_id, "incarnation")]
        await self._store.transact({}, changes)
        await self.settle()

    async def until(self, is_true: Callable[[], bool]) -> None:
        """Lets the brokers work until `is_true` returns True."""
        while not is_true():  # noqa: ASYNC110 - a folder that is renamed sets no event
            await asyncio.sleep(0.01)

    async def settle(self) -> None:
        """Waits until both brokers follow the metadata."""
        await self._store._delivered()
        await asyncio.sleep(0)
        for node_id in (1, 2):
            await self.context(node_id).partitions.settled()

    def hold_openings(self, node_id: int) -> threading.Event:
        """Occupies the thread of a broker that opens large batches, until the event is set."""
        release = threading.Event()
        opener = self.context(node_id).batch_opener
        self._held = asyncio.ensure_future(opener.open_later(_Waiting(release)))
        return release

    # Requests

    async def ask(self, node_id: int, response_class: type[M], version: int, request: Message) -> M:
        """Returns the answer of a broker to a request."""
        assert request.API_KEY is not None
        body = await self._exchange(node_id, ApiKey(request.API_KEY), version, encode(request, version))
        return decode(response_class, version, body)[0]

    async def produce(self, node_id: int, version: int, request: ProduceRequest) -> ProduceResponse:
        """Returns the answer of a broker to a Produce request."""
        body = encode_produce_request(version, request)
        return decode_produce_response(version, await self._exchange(node_id, ApiKey.PRODUCE, version, body))

    async def fetch(self, node_id: int, version: int, request: FetchRequest) -> FetchResponse:
        """Returns the answer of a broker to a Fetch request."""
        body = encode_fetch_request(version, request)
        return decode_fetch_response(version, await self._exchange(node_id, ApiKey.FETCH, version, body))

    async def _exchange(self, node_id: int, api_key: ApiKey, version: int, body: bytes) -> memoryview:
        frame = encode_request_header(api_key, version, 1, "app") + body
        outcome = self._dispatchers[node_id].dispatch(self._connection, memoryview(frame))
        assert outcome is not None
        answer = outcome[2]
        parts = await answer if isinstance(answer, asyncio.Future) else answer
        assert parts is not None
        return memoryview(b"".join(parts))
