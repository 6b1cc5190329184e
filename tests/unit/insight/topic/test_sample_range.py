"""Tests which part of a topic a sample reads."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

import pytest

from klamm.insight.topic.sample_range import SampleRange, choose_range

NOW_MS = 1_767_182_500_000


def _choose(times: Mapping[int, Sequence[int]], records: int, lows: Mapping[int, int] | None = None) -> SampleRange:
    """Chooses from partitions whose records have these timestamps, in order."""

    def offsets_at(timestamp_ms: int) -> dict[int, int]:
        return {partition: bisect_left(of_partition, timestamp_ms) for partition, of_partition in times.items()}

    ends = {partition: len(of_partition) for partition, of_partition in times.items()}
    return choose_range(lows or dict.fromkeys(times, 0), ends, records, NOW_MS, offsets_at)


def test_a_small_topic_is_read_whole() -> None:
    """With at most the wanted number of records, all are read."""
    assert _choose({0: [NOW_MS] * 3, 1: []}, 3) == SampleRange({0: 0, 1: 0}, None, True)


def test_the_newest_records_of_all_partitions_are_chosen() -> None:
    """The partitions have their records from one moment on, so a partition that was busy lately has more of them."""
    slow = [NOW_MS - 1_000 * age for age in range(3_600, 0, -1)]
    lately_busy = [NOW_MS - 100 * age for age in range(600, 0, -1)]
    chosen = _choose({0: slow, 1: lately_busy}, 330)
    assert not chosen.is_whole
    assert chosen.since_ms is not None
    records = {0: 3_600 - chosen.starts[0], 1: 600 - chosen.starts[1]}
    assert 280 <= sum(records.values()) <= 330
    assert 9 <= records[1] / records[0] <= 11


def test_records_within_one_millisecond_are_divided() -> None:
    """If nearly all records have the same timestamp, each partition gives the same fraction."""
    chosen = _choose({0: [NOW_MS - 5_000] * 900, 1: [NOW_MS - 5_000] * 100}, 100)
    assert chosen == SampleRange({0: 810, 1: 90}, None, False)


@pytest.mark.parametrize(("sizes", "records"), [((1503, 1499, 1498), 500), ((5, 5, 5), 8), ((1,) * 1000, 300)])
def test_the_division_is_exact(sizes: tuple[int, ...], records: int) -> None:
    """However the shares are rounded, the sample has as many records as it may have, and no more."""
    chosen = _choose({index: [NOW_MS] * size for index, size in enumerate(sizes)}, records)
    assert sum(sizes) - sum(chosen.starts.values()) == records


def test_records_from_the_future_are_chosen() -> None:
    """Producers may set timestamps that lie ahead. These records are the newest ones."""
    chosen = _choose({0: [NOW_MS - 1_000 * age for age in range(1_000, 0, -1)] + [NOW_MS + 60_000] * 50}, 100)
    assert 900 <= chosen.starts[0] <= 1_000


def test_old_records_are_found() -> None:
    """A topic that got its last records years ago is sampled by its own time."""
    year_ms = 365 * 86_400_000
    chosen = _choose({0: [NOW_MS - 5 * year_ms - age * 60_000 for age in range(10_000, 0, -1)]}, 2_000)
    assert chosen.since_ms is None or chosen.since_ms < NOW_MS - 5 * year_ms
    assert 500 <= 10_000 - chosen.starts[0] <= 2_000


def test_nothing_before_the_lower_offsets_is_chosen() -> None:
    """Offsets before the wanted time, or before the log start, are never read."""
    times = {0: [NOW_MS - 1_000 * age for age in range(1_000, 0, -1)]}
    assert _choose(times, 100, lows={0: 950}) == SampleRange({0: 950}, None, True)
    assert _choose(times, 30, lows={0: 950}).starts[0] >= 970
