"""Requests that write and read records, for scripts."""

from __future__ import annotations

from typing import Any

from tests.differential.script import Run

from klamm.protocol.api import ApiKey
from klamm.protocol.records import encode_batch

__all__ = ["batch", "fetch_fields", "produce", "produce_fields"]

_NOW_MS = 1_750_000_000_000


def batch(value: bytes = b"value", **options: Any) -> bytes:
    """Returns a batch with one record."""
    return encode_batch([(_NOW_MS, b"key", value, ())], **options)


def produce_fields(topic: str, records: bytes, *, index: int = 0, acks: int = -1) -> dict[str, Any]:
    """Returns the fields of a Produce request for one partition."""
    partition = {"index": index, "records": memoryview(records)}
    return {"acks": acks, "timeout_ms": 30_000, "topic_data": [{"name": topic, "partition_data": [partition]}]}


def produce(run: Run, topic: str, value: bytes, *, index: int = 0) -> None:
    """Writes a record with acks=all to the leader, without recording the answer."""
    leader = run.partition(topic, index, run.running[0]).leader_id
    answer = run.call(ApiKey.PRODUCE, broker=leader, **produce_fields(topic, batch(value), index=index))
    (result,) = answer.responses[0].partition_responses
    assert not result.error_code, result


def fetch_fields(topic: str, offset: int = 0, **partition: object) -> dict[str, Any]:
    """Returns the fields of a Fetch request without a session, which does not wait; `partition` has further fields of
    the partition."""
    wanted = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1_000_000, **partition}
    return {"max_wait_ms": 0, "min_bytes": 0, "topics": [{"topic": topic, "partitions": [wanted]}]}
