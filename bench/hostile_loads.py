"""Loads that one client causes with a few kilobytes: record batches that decompress to megabytes."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from bench.wire import Connection
from klamm.protocol.api import ApiKey
from klamm.protocol.compression import Compression, compress
from klamm.protocol.headers import decode_response_header, encode_request_header
from klamm.protocol.produce import ProduceRequest, ProduceTopic
from klamm.protocol.produce_client import decode_produce_response, encode_produce_request
from klamm.protocol.record_batch import BatchHeader, pack_header
from klamm.protocol.records import frame_records
from klamm.protocol.schema.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from klamm.protocol.schema.create_topics_response import CreateTopicsResponse
from klamm.protocol.schema.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from klamm.protocol.schema.list_offsets_response import ListOffsetsResponse
from klamm.protocol.types import LeaderEpoch, Millis, Offset, ProducerEpoch, ProducerId

__all__ = ["create_hostile_topics", "look_up_large_batches", "produce_large_batches", "write_for_the_cleaner"]

_HOUR_MS = 3_600_000
_MANY = 4_000_000
_IN_SEQUENCE = 900_000
_RECORD = b"\x0c\x00\x00\x00\x01\x01\x00"
_PRODUCE_VERSION = 9
_CREATE_VERSION = 4
_LIST_OFFSETS_VERSION = 7
_MAX_TIMESTAMP = -3
_PARTITIONS = 100
_CODECS = (Compression.GZIP, Compression.LZ4, Compression.ZSTD)


def create_hostile_topics(address: str) -> None:
    """Creates the topics that the loads need."""
    compacted = {"cleanup.policy": "compact"}
    topics = {
        "hostile": {},
        "hostile-compacted": compacted,
        "hostile-uncompressed": {"compression.type": "uncompressed"},
        "hostile-recompressed": {"compression.type": "gzip"},
    }
    for name, configs in topics.items():
        _create(address, name, configs)
    _create(address, "hostile-many", compacted, _PARTITIONS)
    _create(address, "hostile-times", {}, _PARTITIONS)
    configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "segment.bytes": "1048576"}
    _create(address, "hostile-cleaned", configs | {"segment.ms": "1000"})


def produce_large_batches(address: str) -> None:
    """Sends batches of very many records to topics whose broker decompresses them, and many smaller batches at once."""
    now = _now_ms()
    identical, sequence = _RECORD * _MANY, _sequence(_IN_SEQUENCE)
    for codec in _CODECS:
        _produce(address, "hostile", [_batch(identical, _MANY, codec, now, now + 2 * _HOUR_MS)])
        _produce(address, "hostile", [_batch(identical, _MANY, codec, now + 2 * _HOUR_MS)])
        _produce(address, "hostile", [_batch(sequence, _IN_SEQUENCE, codec, now, now + 2 * _HOUR_MS)])
        _produce(address, "hostile-uncompressed", [_batch(identical, _MANY, codec, now)])
        _produce(address, "hostile-compacted", [_batch(identical, _MANY, codec, now)])
        _produce(address, "hostile-compacted", [_batch(sequence, _IN_SEQUENCE, codec, now)])
        _produce(address, "hostile-compacted", [_batch(bytes(100_000_000), 1, codec, now)])
    _produce(address, "hostile-recompressed", [_batch(identical, _MANY, Compression.ZSTD, now)])
    many = _RECORD * 140_000
    _produce(address, "hostile", [_batch(many, 140_000, Compression.NONE, now, now + 2 * _HOUR_MS)])
    small = _batch(_sequence(12_000), 12_000, Compression.ZSTD, now)
    _produce(address, "hostile-many", [small] * _PARTITIONS)


def look_up_large_batches(address: str) -> None:
    """Looks up timestamps in batches of millions of records. Half of them claim a timestamp that no record has."""
    now = _now_ms()
    batch = _batch(_RECORD * _MANY, _MANY, Compression.ZSTD, now)
    lie = _batch(_RECORD * _MANY, _MANY, Compression.ZSTD, now, now + 1)
    _produce(address, "hostile-times", [batch, lie] * (_PARTITIONS // 2))
    for timestamp in (now, now + 1, _MAX_TIMESTAMP):
        partitions = [ListOffsetsPartition(partition_index=each, timestamp=timestamp) for each in range(10)]
        topic = ListOffsetsTopic(name="hostile-times", partitions=partitions)
        with Connection(address) as connection:
            request = ListOffsetsRequest(replica_id=-1, topics=[topic])
            connection.ask_all(ListOffsetsResponse, _LIST_OFFSETS_VERSION, [request])


def write_for_the_cleaner(address: str) -> None:
    """Writes batches of nearly a million records for the cleaner, and waits until the cleaner has begun."""
    payload, now = _sequence(_IN_SEQUENCE), _now_ms()
    for timestamp in (*[now] * 10, now + 10_000):  # The last one is in the next segment.
        _produce(address, "hostile-cleaned", [_batch(payload, _IN_SEQUENCE, Compression.ZSTD, timestamp)])
    time.sleep(5)


@cache
def _sequence(count: int) -> bytes:
    """Returns the payload of records with a key each, at consecutive offsets."""
    return frame_records([(b"k", None)] * count).payload


def _create(address: str, name: str, configs: Mapping[str, str], partitions: int = 1) -> None:
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
    with Connection(address) as connection:
        request = CreateTopicsRequest(topics=[topic], timeout_ms=60_000)
        (answer,) = connection.ask_all(CreateTopicsResponse, _CREATE_VERSION, [request])
    if answer.topics[0].error_code:
        raise RuntimeError(f"{name} was not created: error {answer.topics[0].error_code}")


def _produce(address: str, topic: str, batches: Iterable[bytes]) -> list[int]:
    """Sends a batch for each partition; returns the error codes."""
    partitions: list[tuple[int, memoryview | None]] = [
        (index, memoryview(batch)) for index, batch in enumerate(batches)
    ]
    request = ProduceRequest(None, 1, 60_000, [ProduceTopic(topic, None, partitions)])
    body = encode_produce_request(_PRODUCE_VERSION, request)
    header = encode_request_header(ApiKey.PRODUCE, _PRODUCE_VERSION, 1, "bench")
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=600) as connection:
        connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
        with connection.makefile("rb") as file:
            answer = memoryview(file.read(struct.unpack(">i", file.read(4))[0]))
    _, end = decode_response_header(ApiKey.PRODUCE, _PRODUCE_VERSION, answer)
    return list(_error_codes(answer[end:]))


def _error_codes(body: memoryview) -> Iterator[int]:
    for topic in decode_produce_response(_PRODUCE_VERSION, body).topics:
        for partition in topic.partitions:
            yield partition.error_code


def _batch(
    payload: bytes, count: int, codec: Compression, base_timestamp: int, max_timestamp: int | None = None
) -> bytes:
    header = BatchHeader(
        base_offset=Offset(0),
        batch_length=0,
        partition_leader_epoch=LeaderEpoch(-1),
        magic=2,
        crc=0,
        attributes=int(codec),
        last_offset_delta=count - 1,
        base_timestamp=Millis(base_timestamp),
        max_timestamp=Millis(base_timestamp if max_timestamp is None else max_timestamp),
        producer_id=ProducerId(-1),
        producer_epoch=ProducerEpoch(-1),
        base_sequence=-1,
        records_count=count,
    )
    closed = compress(codec, payload)
    return pack_header(header, closed) + closed


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
