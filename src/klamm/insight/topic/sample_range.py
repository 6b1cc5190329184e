"""Chooses which records of a topic a sample reads: the newest ones of all partitions, from one moment on.

A common moment keeps the proportions: a partition that got more records recently has more of them in the sample. The
moment is searched with requests for offsets by time, so no record is read for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

__all__ = ["SampleRange", "choose_range"]

_FIRST_SPAN_MS: Final = 60_000
_LONGEST_SPAN_MS: Final = 100 * 365 * 86_400_000
_REFINEMENTS: Final = 6
_FULL_ENOUGH: Final = 0.25
"""Below this share of the wanted records the timestamps are too uneven to choose by them."""


class SampleRange(NamedTuple):
    """The first offset to read in each partition."""

    starts: Mapping[int, int]
    since_ms: int | None
    """The time from which on all records are read; None if the range was not chosen by time."""
    is_whole: bool
    """Whether the range contains everything from the given lower offsets on."""


def choose_range(
    lows: Mapping[int, int],
    ends: Mapping[int, int],
    records: int,
    now_ms: int,
    offsets_at: Callable[[int], Mapping[int, int]],
) -> SampleRange:
    """Returns where to begin, so that about `records` offsets lie between there and `ends`.

    `offsets_at` returns for a timestamp in milliseconds the first offset of each partition from then on. If timestamps
    do not help (all records have nearly the same one), the range has the same fraction of each partition.
    """
    total = sum(ends[partition] - low for partition, low in lows.items())
    if total <= records:
        return SampleRange(dict(lows), None, True)
    best_ms, best = None, dict(ends)

    def fits(since_ms: int) -> bool:
        nonlocal best_ms, best
        found = offsets_at(since_ms)
        starts = {partition: max(low, found.get(partition, low)) for partition, low in lows.items()}
        if _size(starts, ends) > records:
            return False
        if best_ms is None or _size(starts, ends) >= _size(best, ends):
            best_ms, best = since_ms, starts
        return True

    span_ms = _FIRST_SPAN_MS
    if fits(now_ms - span_ms):
        while span_ms < _LONGEST_SPAN_MS and fits(now_ms - 2 * span_ms):
            span_ms *= 2
        shorter, longer = span_ms, 2 * span_ms
    else:
        while span_ms > 1 and not fits(now_ms - span_ms // 2):
            span_ms //= 2
        shorter, longer = span_ms // 2, span_ms
    for _ in range(_REFINEMENTS):
        middle = (shorter + longer) // 2
        if fits(now_ms - middle):
            shorter = middle
        else:
            longer = middle
    if best_ms is not None and _size(best, ends) >= _FULL_ENOUGH * records:
        return SampleRange(best, best_ms, False)
    sizes = _shares({partition: ends[partition] - low for partition, low in lows.items()}, records)
    return SampleRange({partition: ends[partition] - size for partition, size in sizes.items()}, None, False)


def _shares(sizes: Mapping[int, int], records: int) -> dict[int, int]:
    """Divides `records` among the partitions in proportion to their sizes; the sum is exact (largest remainders)."""
    total = sum(sizes.values())
    shares = {partition: size * records // total for partition, size in sizes.items()}
    by_remainder = sorted(sizes, key=lambda partition: sizes[partition] * records % total, reverse=True)
    for partition in by_remainder[: records - sum(shares.values())]:
        shares[partition] += 1
    return shares


def _size(starts: Mapping[int, int], ends: Mapping[int, int]) -> int:
    return sum(ends[partition] - start for partition, start in starts.items())
