"""Tells the skew of a topic in words: what is uneven and why, what would help, and what limits the figures."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import log
from typing import Final

from klamm.insight.topic.frequent_keys import LongKey, RecordKey
from klamm.insight.topic.skew_rule import KeyShare, SkewCause, TopicSkew
from klamm.insight.topic.skew_sample import TopicSample
from klamm.insight.words import count, enumeration, moment, partition_ranges

__all__ = ["findings", "help_lines", "key_text", "percent", "remarks", "sample_line", "size_words"]

_SHOWN_CHARACTERS: Final = 40
_SHOWN_BYTES: Final = 16
_NOTABLE: Final = 0.01
_MOST_KEYS: Final = 5
_UNITS: Final = ("kB", "MB", "GB", "TB")
_KILO: Final = 1000


def key_text(key: RecordKey) -> str:
    """Returns a key for people: text in quotation marks, other bytes in hexadecimal, `no key` for null."""
    if key is None:
        return "no key"
    data, length = (key.start, key.length) if isinstance(key, LongKey) else (key, len(key))
    # The first bytes of a long key may end within a character.
    text = data.decode(errors="ignore" if isinstance(key, LongKey) else "replace")
    if "\ufffd" not in text and text.isprintable():
        if isinstance(key, LongKey) or len(text) > _SHOWN_CHARACTERS:
            return f'"{text[:_SHOWN_CHARACTERS]}…" ({count(length, "byte")})'
        return f'"{text}"'
    if length > _SHOWN_BYTES:
        return f"0x{data[:_SHOWN_BYTES].hex()}… ({count(length, 'byte')})"
    return f"0x{data.hex()}"


def percent(share: float) -> str:
    """Returns a share as text: `12.3 %`, `0.04 %`."""
    points = 100 * share
    return f"{points:.1f} %" if points >= 1 or not points else f"{points:.2g} %"


def size_words(size_bytes: float) -> str:
    """Returns a number of bytes as text, in powers of 1000: `812 B`, `52.1 kB`, `3.4 GB`."""
    if size_bytes < _KILO:
        return f"{size_bytes:.0f} B"
    power = min(int(log(size_bytes, _KILO)), len(_UNITS))
    return f"{size_bytes / _KILO**power:.1f} {_UNITS[power - 1]}"


def sample_line(sample: TopicSample) -> str:
    """Returns what the sample has read."""
    if not sample.records:
        where = f" from {moment(sample.since_ms)} on" if sample.since_ms is not None else ""
        return f"sample: no records{where}"
    at_least = "" if sample.are_keys_exact else "at least "
    figures = f"{size_words(sample.record_bytes)}, {at_least}{count(sample.keys, 'key')}"
    if sample.is_whole and sample.since_ms is None:
        which = f"all {count(sample.records, 'record')}"
    elif sample.is_whole:
        which = f"all {count(sample.records, 'record')} since {moment(sample.since_ms or 0)}"
    elif sample.since_ms is not None:
        since = moment(sample.since_ms, with_milliseconds=True)
        which = f"the newest {count(sample.records, 'record')}, since {since}"
    else:
        which = f"{count(sample.records, 'record')}, the newest part of each partition"
    return f"sample: {which} ({figures})"


def findings(skew: TopicSkew) -> Iterator[str]:
    """Yields what is uneven, and why."""
    if skew.cause is SkewCause.UNKNOWN or skew.hottest is None:
        yield "there are too few records to judge the partitions by"
        return
    fair = percent(skew.fair_share)
    key = skew.heaviest_key
    heaviest = f"its hottest key {key_text(key.key.key)} has {percent(key.share)}" if key is not None else "no hot key"
    if skew.partition_count == 1:
        yield f"the topic has one partition, so nothing can be uneven; {heaviest} of the {skew.measure.value}"
        return
    has = f"partition {skew.hottest} has {percent(skew.hottest_share)} of the {skew.measure.value}"
    if skew.cause is SkewCause.NONE and skew.empty:
        yield f"no partition has much more than a fair share ({fair}): {has}; {heaviest}"
    elif skew.cause is SkewCause.NONE:
        yield f"the partitions are even: {has}, a fair share is {fair}; {heaviest}"
    else:
        yield f"{has}, {skew.ratio:.1f} times a fair share ({fair}): {_reason(skew)}"
    if skew.empty:
        keys = sum(each.key.key is not None for each in skew.keys)
        few = f": there are {count(keys, 'key')}" if 0 < keys <= skew.partition_count else ""
        yield f"{_partitions(skew.empty)} got no records{few}"
    yield from _scattered(skew)


def _reason(skew: TopicSkew) -> str:
    hot = skew.hottest
    assert hot is not None
    key = skew.heaviest_key
    if skew.cause is SkewCause.KEY and key is not None:
        verb = "alone has" if key.share > skew.fair_share else "has"
        return f"the key {key_text(key.key.key)} {verb} {percent(key.share)}"
    if skew.cause is SkewCause.NO_KEY:
        share = sum(each.partitions.get(hot, 0.0) for each in skew.keys if each.key.key is None)
        return f"{percent(share)} are its records without a key, for which the producer chooses the partition"
    if skew.cause is SkewCause.FEW_KEYS:
        there = [each for each in skew.keys if hot in each.partitions and each.key.key is not None]
        largest = f"the largest has {percent(there[0].share)}"
        everything = sum(each.key.key is not None for each in skew.keys)
        return f"by their hash, {len(there):,} of {count(everything, 'key')} are there; {largest}"
    return (
        "its keys are not where the hash of a usual partitioner (murmur2, CRC-32) puts them: the producer chooses the "
        "partition in another way, or partitions were added after the records were written"
    )


def _partitions(indexes: Collection[int]) -> str:
    return f"{'partition' if len(indexes) == 1 else 'partitions'} {partition_ranges(indexes)}"


def _scattered(skew: TopicSkew) -> Iterator[str]:
    """Yields which of the heaviest keys are in several partitions."""
    scattered = []
    for each in [each for each in skew.keys if each.key.key is not None and each.share >= _NOTABLE][:_MOST_KEYS]:
        places = [partition for partition, share in each.partitions.items() if share >= _NOTABLE * each.share]
        if len(places) > 1:
            scattered.append(f"{key_text(each.key.key)} ({partition_ranges(places)})")
    if scattered:
        yield f"no order within a key: its records are in several partitions: {enumeration(scattered)}"


def help_lines(skew: TopicSkew) -> Iterator[str]:
    """Yields what would help, with the figures, and what would not."""
    key = skew.heaviest_key
    if skew.cause is SkewCause.KEY and key is not None:
        yield from _help_for_key(skew, key)
    elif skew.cause is SkewCause.FEW_KEYS and key is not None:
        yield (
            f"more partitions help only as far as they separate these keys: the partition of {key_text(key.key.key)} "
            f"keeps at least {percent(key.share)}"
        )
        yield "a key with more different values helps, such as the order instead of the country"
    elif skew.cause is SkewCause.NO_KEY:
        yield (
            "look at the producer: the partition that it gives with a record, or its partitioner; those of Kafka's "
            "clients spread records without a key"
        )
    elif skew.cause is SkewCause.PRODUCER:
        yield "look at the producer: its partitioner, or the partition that it gives with each record"
    elif skew.cause is SkewCause.NONE and skew.empty:
        busy = count(skew.partition_count - len(skew.empty), "member")
        yield f"no more than {busy} of a group can have work; a key with more different values helps"
    elif skew.cause is SkewCause.NONE and skew.partition_count > 1:
        yield "if a group lags, its partitions are not the reason: `klamm group explain GROUP` looks at the group"
    if skew.cause not in (SkewCause.NONE, SkewCause.UNKNOWN):
        yield (
            f"the owner of partition {skew.hottest} needs {skew.ratio:.1f} times the pace of an average owner; the "
            "assignor `load` gives it fewer other partitions"
        )


def _help_for_key(skew: TopicSkew, key: KeyShare) -> Iterator[str]:
    share = percent(key.share)
    yield f"more partitions do not help: the key stays in one partition, with {share} of the {skew.measure.value}"
    parts = skew.parts_needed or 1
    if parts > 1:
        yield (
            f"a key with more parts helps, such as customer and order: in {parts} parts each has "
            f"{percent(key.share / parts)}, no more than a fair share"
        )
    rest = skew.hottest_share - key.share
    yield (
        'if the handler waits (a database, another service), klamm.worker with order="key" helps the other keys of the '
        f"partition ({percent(max(0.0, rest))}): they do not wait for this one"
    )


def remarks(sample: TopicSample) -> Iterator[str]:
    """Yields what limits the figures: bounds, gaps between offsets, open transactions, partitions without a leader."""
    if sample.cut_by is not None:
        bound = {"time": "its time was over", "bytes": "it had read its bytes"}[sample.cut_by]
        unread = [each.partition for each in sample.partitions if each.is_unread]
        missing = f"; nothing was read of {_partitions(unread)}" if unread else ""
        yield f"the sample ended because {bound}: the shares are scaled up from what was read{missing}"
    gaps = sum(each.gaps for each in sample.partitions)
    if gaps:
        read = sum(each.position - each.start for each in sample.partitions)
        yield (
            f"{percent(gaps / read)} of the offsets in the sample hold no record (transactions or compaction): the "
            "numbers of offsets are an upper limit for the records"
        )
    hidden = {each.partition: each.end - each.target for each in sample.partitions if each.target < each.end}
    if hidden:
        offsets = count(sum(hidden.values()), "offset")
        yield f"an open transaction hides the newest {offsets} of {_partitions(hidden)}"
    if sample.unavailable:
        yield f"{_partitions(sample.unavailable)} can't be read now, because there is no leader"
