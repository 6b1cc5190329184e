"""Tests that the configuration APIs of klamm and of Apache Kafka give the same answers to the same requests."""

from __future__ import annotations

import asyncio
import importlib
import socket
import struct
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from tests.support.kafka_broker import ApacheKafka, KafkaUnavailable
from tests.support.steps import finished
from tests.support.toolchains import toolchain_is_missing

from klamm.broker.handler_context import BrokerContext, ConnectionInfo, RequestContext
from klamm.broker.partitions.partition_registry import PartitionRegistry
from klamm.config.broker_config import BrokerConfig
from klamm.metadata.service import MetadataService, NewTopic
from klamm.metadata.sqlite_store import SqliteStore
from klamm.protocol.api import API_SPECS, ApiKey
from klamm.protocol.codec import Message, decode, encode
from klamm.protocol.errors import KafkaError
from klamm.protocol.headers import encode_response_header
from klamm.protocol.schema.alter_configs_request import AlterableConfig as ReplacingConfig
from klamm.protocol.schema.alter_configs_request import AlterConfigsRequest
from klamm.protocol.schema.alter_configs_request import AlterConfigsResource as ReplacedResource
from klamm.protocol.schema.create_topics_request import CreatableTopic, CreateTopicsRequest
from klamm.protocol.schema.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from klamm.protocol.schema.describe_configs_response import DescribeConfigsResponse
from klamm.protocol.schema.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from klamm.protocol.schema.list_config_resources_request import ListConfigResourcesRequest
from klamm.protocol.schema.request_header import RequestHeader
from klamm.protocol.types import Millis

pytestmark = pytest.mark.java

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
READING = {ApiKey.DESCRIBE_CONFIGS, ApiKey.LIST_CONFIG_RESOURCES}

NOT_THERE = cast(Any, None)
PRESENT = CreatableTopic(name="present", num_partitions=1, replication_factor=1)


class KafkaPeer:
    """A connection to an Apache Kafka broker."""

    def __init__(self, kafka: ApacheKafka, explicit: dict[str, str]) -> None:
        self.explicit = explicit
        host, _, port = kafka.bootstrap_servers.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=30)

    def ask(self, key: ApiKey, version: int, request: Message) -> Message:
        spec = API_SPECS[key]
        is_flexible = spec.flexible_from is not None and version >= spec.flexible_from
        header = RequestHeader(request_api_key=key, request_api_version=version, correlation_id=7, client_id="compare")
        frame = encode(header, 2 if is_flexible else 1) + encode(request, version)
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", self._read(4))
        answer = self._read(size)
        message, _ = decode(spec.response_class(), version, answer, len(encode_response_header(7, is_flexible)))
        return message

    def close(self) -> None:
        self._socket.close()

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            received = self._socket.recv(count - len(data))
            assert received, "Apache Kafka closed the connection"
            data += received
        return data


class KlammPeer:
    """klamm's request handlers with a real metadata store."""

    def __init__(self, config: BrokerConfig, metadata: MetadataService) -> None:
        self._broker = BrokerContext(
            config=config,
            node_id=config.node_id,
            clock=lambda: Millis(0),
            metadata=metadata,
            log_directory=NOT_THERE,
            partitions=PartitionRegistry(config.node_id, NOT_THERE, NOT_THERE),
            fetch_sessions=NOT_THERE,
            groups=NOT_THERE,
            transactions=NOT_THERE,
            transaction_markers=NOT_THERE,
            transaction_verifier=NOT_THERE,
            ensure_internal_topic=NOT_THERE,
        )

    async def ask(self, key: ApiKey, version: int, request: Message) -> Message:
        handler = importlib.import_module(f"klamm.broker.handlers.{key.name.lower()}")
        connection = ConnectionInfo("127.0.0.1", "127.0.0.1:1", "127.0.0.1", 1)
        try:
            context = RequestContext(self._broker, connection, key, version, None)
            response = await finished(handler.handle(context, request))
        except KafkaError as error:
            response = handler.error_response(request, version, error.code, error.message)
        # Encoding and decoding drops the fields that this version does not have.
        message, _ = decode(API_SPECS[key].response_class(), version, encode(response, version))
        return message


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaPeer]:
    try:
        broker = ApacheKafka()
        with broker:
            assert broker._folder is not None
            text = (broker._folder / "server.properties").read_text()
            peer = KafkaPeer(broker, dict(line.split("=", 1) for line in text.splitlines()))
            peer.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[PRESENT], timeout_ms=10_000))
            yield peer
            peer.close()
    except KafkaUnavailable as error:
        toolchain_is_missing("java", str(error))


@asynccontextmanager
async def klamm_with(explicit: dict[str, str], folder: Path) -> AsyncIterator[KlammPeer]:
    config = BrokerConfig.load(explicit)
    metadata = await MetadataService.open(await SqliteStore.open(folder / "metadata.sqlite"), config)
    await metadata.start_broker({"PLAINTEXT": ("127.0.0.1", 1)}, None)
    await metadata.create_topics([NewTopic("present", partitions=1)])
    try:
        yield KlammPeer(config, metadata)
    finally:
        await metadata.close()


def describe(kind: int, name: str) -> tuple[ApiKey, int, Message]:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=True)
    return ApiKey.DESCRIBE_CONFIGS, 4, request


def alter(
    kind: int, name: str, *changes: tuple[str, int, str | None], trial: bool = False
) -> tuple[ApiKey, int, Message]:
    configs = [AlterableConfig(name=key, config_operation=operation, value=value) for key, operation, value in changes]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return (
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        IncrementalAlterConfigsRequest(resources=[resource], validate_only=trial),
    )


def replace(kind: int, name: str, **changes: str | None) -> tuple[ApiKey, int, Message]:
    configs = [ReplacingConfig(name=key.replace("_", "."), value=value) for key, value in changes.items()]
    resource = ReplacedResource(resource_type=kind, resource_name=name, configs=configs)
    return ApiKey.ALTER_CONFIGS, 2, AlterConfigsRequest(resources=[resource])


CONVERSATIONS: dict[str, list[tuple[ApiKey, int, Message]]] = {
    "nothing set": [
        describe(TOPIC, "present"),
        describe(TOPIC, "absent"),
        describe(TOPIC, "a/b"),
        describe(BROKER, "1"),
        describe(BROKER, ""),
        describe(BROKER, "2"),
        describe(BROKER, "x"),
        describe(BROKER, " 1"),
        describe(BROKER, "1_0"),
        describe(BROKER, "99999999999"),
        describe(GROUP, "g"),
        describe(GROUP, ""),
        describe(CLIENT_METRICS, "s"),
        describe(CLIENT_METRICS, ""),
        describe(3, "x"),
    ],
    "a topic": [
        alter(TOPIC, "present", ("retention.ms", SET, " 5 "), ("cleanup.policy", APPEND, "compact")),
        alter(TOPIC, "present", ("min.cleanable.dirty.ratio", SET, "0.25"), ("compression.gzip.level", SET, "3")),
        describe(TOPIC, "present"),
        alter(TOPIC, "present", ("cleanup.policy", SUBTRACT, "delete,other"), ("retention.ms", DELETE, None)),
        describe(TOPIC, "present"),
        alter(TOPIC, "present", ("leader.replication.throttled.replicas", SET, "*")),
        alter(TOPIC, "present", ("leader.replication.throttled.replicas", SET, "1-2")),
        alter(TOPIC, "present", ("retention", SET, "5")),
        alter(TOPIC, "present", ("retention.ms", SET, "-2")),
        alter(TOPIC, "present", ("retention.ms", SET, "soon")),
        alter(TOPIC, "present", ("retention.ms", SET, None)),
        alter(TOPIC, "present", ("retention.ms", APPEND, "1")),
        alter(TOPIC, "present", ("retention", SUBTRACT, "1")),
        alter(TOPIC, "present", ("retention.ms", SET, "1"), ("retention.ms", DELETE, None)),
        alter(TOPIC, "present", ("cleanup.policy", SET, "remove")),
        alter(TOPIC, "present", ("compression.type", SET, "zip")),
        alter(TOPIC, "present", ("compression.gzip.level", SET, "10")),
        alter(TOPIC, "present", ("preallocate", SET, "yes")),
        alter(TOPIC, "present", ("segment.bytes", SET, "1000")),
        alter(TOPIC, "present", ("min.cleanable.dirty.ratio", SET, "1.5")),
        alter(TOPIC, "present", ("min.compaction.lag.ms", SET, "5"), ("max.compaction.lag.ms", SET, "4")),
        alter(TOPIC, "present", ("remote.storage.enable", SET, "true")),
        alter(TOPIC, "absent", ("retention.ms", SET, "1")),
        alter(TOPIC, "", ("retention.ms", SET, "1")),
        alter(TOPIC, "present", ("retention.ms", SET, "1"), trial=True),
        replace(TOPIC, "present", segment_ms="7"),
        describe(TOPIC, "present"),
        replace(TOPIC, "present", segment_ms=None),
        replace(TOPIC, "present"),
    ],
    "a broker": [
        alter(BROKER, "1", ("max.connections", SET, "1000"), ("log.retention.ms", SET, "7")),
        alter(BROKER, "", ("max.connections", SET, "2000"), ("log.cleanup.policy", APPEND, "compact")),
        alter(BROKER, "1", ("leader.replication.throttled.rate", SET, "100"), ("my.plugin.key", SET, "x")),
        describe(BROKER, "1"),
        describe(BROKER, ""),
        describe(TOPIC, "present"),
        alter(BROKER, "1", ("num.partitions", SET, "2")),
        alter(BROKER, "1", ("max.connections", SET, "many")),
        alter(BROKER, "1", ("max.connections", SET, "-1")),
        alter(BROKER, "", ("cordoned.log.dirs", SET, "")),
        alter(BROKER, "2", ("max.connections", SET, "1")),
        alter(BROKER, "x", ("max.connections", SET, "1")),
        alter(BROKER, " 1", ("max.connections", SET, "1")),
        alter(BROKER, "1_0", ("max.connections", SET, "1")),
        alter(BROKER, "1", ("max.connections", SET, None)),
        alter(BROKER, "1", ("sasl.kerberos.min.time.before.relogin", SET, "30000")),
        alter(BROKER, "1", ("sasl.kerberos.ticket.renew.jitter", SET, "0.1")),
        alter(BROKER, "1", ("sasl.kerberos.principal.to.local.rules", APPEND, "RULE:[1:$1]")),
        alter(BROKER, "1", ("sasl.login.refresh.window.factor", SET, "0.6")),
        alter(BROKER, "1", ("sasl.login.refresh.window.factor", SET, "2")),
        describe(BROKER, "1"),
        replace(BROKER, "1"),
        alter(BROKER, "1", ("min.insync.replicas", SET, "1")),
        alter(BROKER, "1", ("min.insync.replicas", DELETE, None)),
        alter(BROKER, "", ("min.insync.replicas", SET, "2")),
        alter(BROKER, "", ("min.insync.replicas", SET, "1")),
        alter(BROKER, "", ("min.insync.replicas", DELETE, None)),
        replace(BROKER, "", log_retention_ms="1"),
        describe(BROKER, ""),
        alter(BROKER, "", ("max.connections", DELETE, None), ("log.cleanup.policy", DELETE, None)),
        describe(BROKER, ""),
    ],
    "a group": [
        alter(
            GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"), ("share.isolation.level", SET, "read_committed")
        ),
        describe(GROUP, "g"),
        alter(GROUP, "g", ("session.timeout.ms", SET, "1")),
        alter(GROUP, "g", ("consumer.session.timeout.ms", SET, "1")),
        alter(GROUP, "g", ("consumer.heartbeat.interval.ms", SET, "15001")),
        alter(GROUP, "g", ("share.auto.offset.reset", SET, "never")),
        alter(GROUP, "g", ("share.auto.offset.reset", SET, "by_duration:PT1H")),
        alter(GROUP, "g", ("streams.num.standby.replicas", SET, "3")),
        alter(GROUP, "g", ("consumer.assignment.interval.ms", SET, "15001")),
        alter(GROUP, "", ("consumer.session.timeout.ms", SET, "50000")),
        (ApiKey.LIST_CONFIG_RESOURCES, 1, ListConfigResourcesRequest(resource_types=[GROUP])),
        replace(GROUP, "g"),
        (ApiKey.LIST_CONFIG_RESOURCES, 1, ListConfigResourcesRequest(resource_types=[GROUP])),
    ],
    "a group's bounds": [
        alter(GROUP, "b", ("consumer.session.timeout.ms", SET, "45000")),
        alter(
            GROUP, "b", ("consumer.session.timeout.ms", SET, "60000"), ("consumer.heartbeat.interval.ms", SET, "15000")
        ),
        alter(GROUP, "b", ("consumer.session.timeout.ms", SET, "60001")),
        alter(GROUP, "b", ("consumer.session.timeout.ms", SET, "44999")),
        alter(GROUP, "b", ("consumer.heartbeat.interval.ms", SET, "4999")),
        alter(GROUP, "b", ("consumer.heartbeat.interval.ms", SET, "0")),
        alter(GROUP, "b", ("consumer.assignment.interval.ms", SET, "-1")),
        alter(GROUP, "b", ("consumer.assignment.interval.ms", SET, "0")),
        alter(GROUP, "b", ("consumer.assignment.interval.ms", SET, "15000")),
        alter(GROUP, "b", ("consumer.session.timeout.ms", SET, "soon")),
        alter(GROUP, "b", ("consumer.session.timeout.ms", SET, "3000000000")),
        alter(GROUP, "b", ("consumer.session.timeout.ms", SET, None)),
        alter(GROUP, "b", ("consumer.session.timeout.ms", APPEND, "1")),
        alter(GROUP, "b", ("consumer.session.timeout.ms", SET, "50000"), ("consumer.session.timeout.ms", DELETE, None)),
        alter(GROUP, "b", ("share.session.timeout.ms", SET, "60001")),
        alter(GROUP, "b", ("share.heartbeat.interval.ms", SET, "15001")),
        alter(GROUP, "b", ("share.record.lock.duration.ms", SET, "14999")),
        alter(GROUP, "b", ("share.record.lock.duration.ms", SET, "999")),
        alter(GROUP, "b", ("share.delivery.count.limit", SET, "11")),
        alter(GROUP, "b", ("share.partition.max.record.locks", SET, "4001")),
        alter(GROUP, "b", ("share.assignment.interval.ms", SET, "15001")),
        alter(GROUP, "b", ("share.renew.acknowledge.enable", SET, "perhaps")),
        alter(GROUP, "b", ("share.isolation.level", SET, "serializable")),
        alter(GROUP, "b", ("streams.session.timeout.ms", SET, "1")),
        alter(GROUP, "b", ("streams.heartbeat.interval.ms", SET, "1")),
        alter(GROUP, "b", ("streams.assignment.interval.ms", SET, "15001")),
        alter(GROUP, "b", ("streams.initial.rebalance.delay.ms", SET, "-1")),
        alter(GROUP, "b", ("streams.num.standby.replicas", SET, "2"), ("share.delivery.count.limit", SET, "10")),
        describe(GROUP, "b"),
        alter(GROUP, "b", ("consumer.session.timeout.ms", SET, "46000"), trial=True),
        alter(GROUP, "b", ("consumer.session.timeout.ms", SET, "1"), trial=True),
        alter(GROUP, "b", ("consumer.heartbeat.interval.ms", DELETE, None), ("share.isolation.level", DELETE, None)),
        describe(GROUP, "b"),
        replace(GROUP, "b", consumer_session_timeout_ms="47000"),
        describe(GROUP, "b"),
        replace(GROUP, "b", consumer_session_timeout_ms="1"),
        replace(GROUP, "", consumer_session_timeout_ms="47000"),
        alter(GROUP, "another", ("consumer.session.timeout.ms", SET, "47000")),
        replace(GROUP, "b"),
        replace(GROUP, "another"),
        describe(GROUP, "b"),
        (ApiKey.LIST_CONFIG_RESOURCES, 1, ListConfigResourcesRequest(resource_types=[GROUP])),
    ],
    "what groups get by default": [
        alter(BROKER, "", ("group.consumer.assignment.interval.ms", SET, "2000")),
        alter(BROKER, "1", ("group.consumer.assignment.interval.ms", SET, "15001")),
        alter(BROKER, "1", ("group.consumer.assignment.interval.ms", SET, "-1")),
        alter(BROKER, "1", ("group.consumer.session.timeout.ms", SET, "50000")),
        alter(BROKER, "1", ("group.consumer.assignors", SET, "range")),
        alter(BROKER, "1", ("group.coordinator.rebalance.protocols", SET, "classic")),
        alter(BROKER, "1", ("group.share.assignment.interval.ms", SET, "15001")),
        describe(GROUP, "d"),
        alter(BROKER, "1", ("group.consumer.assignment.interval.ms", SET, "3000")),
        describe(GROUP, "d"),
        describe(BROKER, "1"),
        alter(BROKER, "1", ("group.consumer.assignment.interval.ms", DELETE, None)),
        alter(BROKER, "", ("group.consumer.assignment.interval.ms", DELETE, None)),
        describe(GROUP, "d"),
    ],
    "a metrics subscription": [
        alter(CLIENT_METRICS, "s", ("interval.ms", SET, "1000"), ("match", SET, "client_id=a.*")),
        describe(CLIENT_METRICS, "s"),
        alter(CLIENT_METRICS, "s", ("interval.ms", SET, "1")),
        alter(CLIENT_METRICS, "s", ("unknown", SET, "1")),
        alter(CLIENT_METRICS, "s", ("match", SET, "host=a")),
        alter(CLIENT_METRICS, "", ("interval.ms", SET, "1000")),
        (ApiKey.LIST_CONFIG_RESOURCES, 0, ListConfigResourcesRequest()),
        replace(CLIENT_METRICS, "s"),
    ],
    "everything that can be described": [
        (ApiKey.LIST_CONFIG_RESOURCES, 1, ListConfigResourcesRequest()),
        (ApiKey.LIST_CONFIG_RESOURCES, 1, ListConfigResourcesRequest(resource_types=[BROKER, TOPIC])),
        (ApiKey.LIST_CONFIG_RESOURCES, 1, ListConfigResourcesRequest(resource_types=[64])),
        alter(3, "x", ("a", SET, "1")),
    ],
}


# Keys with different values: klamm has one more assignor, and a limit where Kafka has none.
SET_OTHERWISE = {"group.consumer.assignors", "queued.max.request.bytes"}


def comparable(message: Message) -> Any:
    """Returns an answer in a form that ignores the order of keys, which is a hash map's in Kafka, and klamm's own
    keys."""
    if isinstance(message, DescribeConfigsResponse):
        return [
            (
                result.error_code,
                result.error_message,
                {
                    entry.name: repr(entry)
                    for entry in result.configs
                    if not entry.name.startswith("klamm.") and entry.name not in SET_OTHERWISE
                },
            )
            for result in message.results
        ]
    return repr(message)


@pytest.mark.parametrize("title", CONVERSATIONS)
def test_klamm_answers_as_apache_kafka(kafka: KafkaPeer, title: str, tmp_path: Path) -> None:
    """klamm's answers equal Kafka's for each request: errors, values, sources, synonyms, types and documentation."""

    async def talk() -> None:
        async with klamm_with(kafka.explicit, tmp_path) as klamm:
            for key, version, request in CONVERSATIONS[title]:
                ours = comparable(await klamm.ask(key, version, request))
                theirs = comparable(kafka.ask(key, version, request))
                # Apache Kafka's broker applies a change after its controller has answered.
                patience = time.monotonic() + 60
                while ours != theirs and key in READING and time.monotonic() < patience:
                    await asyncio.sleep(0.05)
                    theirs = comparable(kafka.ask(key, version, request))
                assert ours == theirs, request

    asyncio.run(talk())
