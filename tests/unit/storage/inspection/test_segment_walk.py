"""Tests that a walk over a damaged segment finds all whole batches."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.examples import examples
from tests.support.log_folder import batch

from klamm.protocol.record_batch import iterate_batches, restamp
from klamm.protocol.types import LeaderEpoch, Offset
from klamm.storage.inspection.segment_walk import BadRange, GoodBatch, walk


def _segment(counts: Sequence[int], epochs: Sequence[int] = ()) -> bytes:
    """Returns batches with these record counts, one after the other."""
    parts = []
    offset = 0
    for number, count in enumerate(counts):
        epoch = LeaderEpoch(epochs[number] if epochs else 0)
        prefix, rest = restamp(batch(count, value=b"%d" % number * 20), Offset(offset), epoch)
        parts.append(prefix + bytes(rest))
        offset += count
    return b"".join(parts)


def _walk(path: Path, content: bytes, *, offset_limit: int | None = None) -> list[GoodBatch | BadRange]:
    path.write_bytes(content)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return list(walk(descriptor, len(content), offset_limit=offset_limit))
    finally:
        os.close(descriptor)


def _offsets(found: Sequence[GoodBatch | BadRange]) -> list[int]:
    return [each.header.base_offset for each in found if isinstance(each, GoodBatch)]


def test_a_sound_segment_is_all_batches(tmp_path: Path) -> None:
    """A walk over a sound segment finds each batch at its position."""
    content = _segment([3, 1, 2])
    found = _walk(tmp_path / "log", content)
    assert _offsets(found) == [0, 3, 4]
    assert [(each.position) for each in found] == [position for position, _ in iterate_batches(content)]


@settings(
    max_examples=examples(80),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)
@given(st.integers(0, 4), st.data())
def test_one_damaged_batch_costs_no_other(tmp_path: Path, number: int, data: st.DataObject) -> None:
    """If one byte of a batch changes, in its header or after it, the walk finds all other batches and invents none."""
    content = bytearray(_segment([2, 1, 3, 1, 2]))
    bounds = [(position, position + header.size_bytes) for position, header in iterate_batches(content)]
    start, end = bounds[number]
    at = data.draw(st.integers(start, end - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    found = _walk(tmp_path / "log", bytes(content))
    good = [(each.position, each.end) for each in found if isinstance(each, GoodBatch)]
    in_prefix = at - start < 16 and not 8 <= at - start < 12
    if in_prefix:
        # The CRC does not cover base offset and leader epoch. Their changed values may make this batch, or the ones
        # after it, look out of order.
        assert all(bound in bounds for bound in good)
        return
    assert good == bounds[:number] + bounds[number + 1 :]
    (bad,) = (each for each in found if isinstance(each, BadRange))
    assert (bad.position, bad.end) == (start, end)


def test_zeros_and_rubbish_between_batches_are_passed_over(tmp_path: Path) -> None:
    """A walk skips zeros and random bytes between batches, even if they are longer than one read."""
    content = _segment([2, 2])
    half = len(content) // 2
    rubbish = bytes(1_500_000) + b"\x02" * 700_000
    found = _walk(tmp_path / "log", content[:half] + rubbish + content[half:])
    assert _offsets(found) == [0, 2]
    assert [each.end - each.position for each in found if isinstance(each, BadRange)] == [len(rubbish)]


@pytest.mark.parametrize("kept", [1, 20, 61, 70])
def test_a_torn_tail_reaches_to_the_end(tmp_path: Path, kept: int) -> None:
    """A torn tail of any length is one bad range up to the end of the file."""
    content = _segment([2, 2])
    half = len(content) // 2
    found = _walk(tmp_path / "log", content[: half + kept])
    assert _offsets(found) == [0]
    assert found[-1][:2] == (half, half + kept)


def test_offsets_and_epochs_must_rise(tmp_path: Path) -> None:
    """A batch is bad if its offset or leader epoch is lower than before, or if it reaches into the next segment."""
    first, second = _segment([2]), _segment([1, 2])
    found = _walk(tmp_path / "log", second + first)
    assert _offsets(found) == [0, 1]
    assert isinstance(found[-1], BadRange)
    assert found[-1].reason == "a batch at offset 0 where 3 or more is due"
    found = _walk(tmp_path / "log", _segment([1, 2, 1], [1, 0, 1]))
    assert _offsets(found) == [0, 3]
    assert isinstance(found[1], BadRange)
    assert "leader epoch 0 after one of 1" in found[1].reason
    found = _walk(tmp_path / "log", second, offset_limit=2)
    assert _offsets(found) == [0]
    assert isinstance(found[-1], BadRange)
    assert "the next segment begins at 2" in found[-1].reason
