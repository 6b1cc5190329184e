"""Tests that a micro-batch is identified by the files that Spark 4.3 writes into the checkpoint."""

from __future__ import annotations

import hashlib

import pytest

from klamm.protocol.types import Millis
from klamm.spark.sink.checkpoint_batch import CheckpointBatch, offsets_hash, query_id_of
from klamm.spark.sink.marker_errors import CheckpointUnreadable

OFFSETS = (
    b'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1795494539888,"conf":{"spark.sql.shuffle.partitions":"2"}}\n'
    b'{"logOffset":0}'
)


def described(offsets: bytes = OFFSETS, previous: bytes | None = None) -> CheckpointBatch:
    return CheckpointBatch.of(query_id="q", batch_id=3, run_id="r", offsets=offsets, previous_offsets=previous)


def test_a_micro_batch_is_described_by_its_files() -> None:
    """A micro-batch is described by its files, and the hash covers every byte of `offsets/N`."""
    digest = hashlib.sha256(OFFSETS).hexdigest()
    assert described() == CheckpointBatch("q", 3, "r", digest, None, Millis(1795494539888))
    assert described(previous=OFFSETS).previous_offsets_hash == digest


def test_another_plan_has_another_hash() -> None:
    """Two plans have different hashes even if only the time differs, as after the restore of an older checkpoint."""
    assert offsets_hash(OFFSETS) != offsets_hash(OFFSETS.replace(b"539888", b"539889"))


@pytest.mark.parametrize(
    "offsets",
    [
        b"",
        b"v1",
        b"v1\nno json\n-",
        b"v1\n[]\n-",
        b"v1\n{}\n-",
        b'v1\n{"batchTimestampMs":"1"}\n-',
        b'v1\n{"batchTimestampMs":0}\n-',
        b'v1\n{"batchTimestampMs":true}\n-',
        b"v1\n\xff\n-",
    ],
)
def test_a_time_that_is_not_there_is_unknown(offsets: bytes) -> None:
    """A missing or invalid planning time is `None`, and the hash still identifies the micro-batch."""
    assert described(offsets).planned_ms is None
    assert described(offsets).offsets_hash == offsets_hash(offsets)


def test_the_query_id_is_in_the_checkpoint() -> None:
    """The query id is read from the checkpoint; a micro-batch without tasks has no other source for the query id."""
    assert query_id_of(b'{"id":"ad960f35-f1f2-4489-8c65-e7f2bd59daa6"}') == "ad960f35-f1f2-4489-8c65-e7f2bd59daa6"


@pytest.mark.parametrize("metadata", [b"", b"{}", b"[]", b'{"id":""}', b'{"id":1}', b"\xff"])
def test_a_checkpoint_without_a_query_id_is_refused(metadata: bytes) -> None:
    """A checkpoint without a query id is refused with an error that names the file and the missing id."""
    with pytest.raises(CheckpointUnreadable, match="the file 'metadata' holds no query id"):
        query_id_of(metadata)
