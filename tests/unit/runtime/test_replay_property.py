"""Tests that a partition is loaded and serves requests with any records in its log."""

from __future__ import annotations

import logging
from functools import cache
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.examples import examples
from tests.unit.runtime.coordinator_world import P0, CoordinatorWorld
from tests.unit.runtime.fake_ports import MemoryLog

from klamm.protocol.coordinator_records import encode_record_key, encode_record_value, group_record_classes
from klamm.protocol.errors import ErrorCode
from klamm.protocol.records import encode_batch
from klamm.protocol.schema.record_types import GROUP_RECORDS
from klamm.runtime.led_partition import PartitionState

RECORDS_PER_LOG = 40
DAY_MS = 24 * 3_600_000

Sample = tuple[bytes, bytes | None]


@cache
def _samples() -> list[Sample]:
    """Returns each record type in each version, and the records that a coordinator writes for a group in use."""
    samples: list[Sample] = []
    for record_type in GROUP_RECORDS:
        classes = group_record_classes(record_type)
        assert classes is not None
        key_class, value_class = classes
        key = encode_record_key(key_class())
        lowest, highest = value_class.VERSIONS
        samples += [(key, encode_record_value(value_class(), version)) for version in range(lowest, highest + 1)]
        samples.append((key, None))
    world = CoordinatorWorld()
    world.stable_group()
    world.commit(5)
    samples += [(record.key or b"", record.value) for record in world.log.records(P0)]
    return samples


def _damaged(random: Random, data: bytes) -> bytes:
    content = bytearray(data)
    for _ in range(random.choice((0, 1, 1, 2, 4))):
        at = random.randrange(len(content) + 1)
        draw = random.random()
        if draw < 0.5 and at < len(content):
            content[at] = random.choice((0, 1, 2, 0x7F, 0x80, 0xFF, random.randrange(256)))
        elif draw < 0.7:
            del content[at : at + random.randint(1, 4)]
        else:
            content[at:at] = random.randbytes(random.randint(1, 6))
    return bytes(content)


@settings(
    max_examples=examples(30),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(seed=st.integers(0, 2**32))
def test_damaged_records_leave_the_partition_alive(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    """I17: records that can be read take effect, and no damaged record stops the load, the sessions or the expiry."""
    random = Random(seed)
    records = []
    for _ in range(RECORDS_PER_LOG):
        key, value = random.choice(_samples())
        if random.random() < 0.6:
            key = _damaged(random, key)
            value = None if value is None else _damaged(random, value)
        records.append((1, key, value, ()))
    log = MemoryLog()
    log.append(P0, encode_batch(records))
    caplog.clear()
    world = CoordinatorWorld(log=log)
    assert world.coordinator._runtime._led[P0].state is PartitionState.ACTIVE
    assert world.commit_code(3, group_id="another") is ErrorCode.NONE
    world.timers.advance(DAY_MS)
    assert world.fetched(group_id="another") == 3
    assert {record.name for record in caplog.records if record.levelno >= logging.WARNING} <= {
        "klamm.runtime.skipped_records"
    }
