"""Formats numbers, durations, points in time and lists for people."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Final, TypeAlias

__all__ = [
    "PartitionKey",
    "count",
    "enumeration",
    "lag_words",
    "moment",
    "partition_names",
    "partition_ranges",
    "span",
]

PartitionKey: TypeAlias = tuple[str, int]
"""Topic and index."""

_SECOND_MS: Final = 1_000


def count(number: int, what: str, plural: str | None = None) -> str:
    """Returns a number with its noun: `1 member`, `2 members`, `1,204 records`."""
    return f"{number:,} {what if number == 1 else plural or what + 's'}"


def span(milliseconds: float) -> str:
    """Returns a duration as text: `230 ms`, `4.2 s`, `3 min 12 s`, `2 h 5 min`, `3 d 4 h`. Negative counts as zero."""
    ms = max(0, round(milliseconds))
    if ms < _SECOND_MS:
        return f"{ms} ms"
    if ms < 99_950:
        return f"{ms / _SECOND_MS:.1f} s"
    seconds = round(ms / _SECOND_MS)
    minutes, hours, days = seconds // 60, seconds // 3_600, seconds // 86_400
    if days:
        return _two(days, "d", hours % 24, "h")
    return _two(hours, "h", minutes % 60, "min") if hours else _two(minutes, "min", seconds % 60, "s")


def _two(whole: int, unit: str, rest: int, part: str) -> str:
    return f"{whole} {unit} {rest} {part}" if rest else f"{whole} {unit}"


def moment(milliseconds: int, *, with_milliseconds: bool = False) -> str:
    """Returns a timestamp in local time: `2026-11-21 12:00:03`."""
    try:
        local = datetime.fromtimestamp(milliseconds / 1000)
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms since 1970"
    return local.isoformat(sep=" ", timespec="milliseconds" if with_milliseconds else "seconds")


def partition_ranges(indexes: Iterable[int]) -> str:
    """Returns indexes as ranges: `0-3, 5, 7`. Two adjacent indexes do not become a range."""
    ranges: list[list[int]] = []
    for index in sorted(set(indexes)):
        if ranges and index == ranges[-1][1] + 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    parts = []
    for first, last in ranges:
        parts += [f"{first}-{last}"] if last - first > 1 else [str(index) for index in range(first, last + 1)]
    return ", ".join(parts)


def partition_names(keys: Collection[PartitionKey]) -> str:
    """Returns partitions by topic: `orders 0-2, 5; bills 1`; `nothing` if there are none."""
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(keys):
        topics.setdefault(topic, []).append(index)
    return "; ".join(f"{topic} {partition_ranges(indexes)}" for topic, indexes in topics.items()) or "nothing"


def enumeration(parts: Sequence[str], *, most: int | None = None) -> str:
    """Returns a list as text: `a`, `a and b`, `a, b and c`; `a, b and 7 more` if there are more than `most`."""
    if most is not None and len(parts) > most:
        parts = [*parts[: most - 1], f"{len(parts) - most + 1} more"]
    if len(parts) <= 1:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def lag_words(lags: Iterable[int | None], unavailable: int = 0) -> str:
    """Returns the total lag: `lag 1,204`; `lag ≥ 1,204 (2 partitions uncommitted)` if some partitions have no commit
    (None); `lag unknown (6 partitions uncommitted)` if no partition has one.

    `unavailable` is how many of the partitions without a lag have a commit, and an end that can't be read.
    """
    every = list(lags)
    known = [lag for lag in every if lag is not None]
    unknown = len(every) - len(known)
    if not unknown:
        return f"lag {sum(known):,}"
    total = f"≥ {sum(known):,}" if known else "unknown"
    reasons = [
        f"{count(number, 'partition')} {reason}"
        for number, reason in ((unknown - unavailable, "uncommitted"), (unavailable, "unavailable"))
        if number
    ]
    return f"lag {total} ({', '.join(reasons)})"
