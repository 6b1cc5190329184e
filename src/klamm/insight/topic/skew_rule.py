"""Judges the skew of a topic: whether a partition has more than its share, whether a key is the reason, and what helps.

Pure: decides by a `TopicSample`. A partition has a fair share if it has one part of as many as there are partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import ceil, sqrt
from typing import Final, NamedTuple

from klamm.client.producer.partitioner import crc32_partition, murmur2_partition
from klamm.insight.topic.frequent_keys import FrequentKey
from klamm.insight.topic.skew_sample import TopicSample

__all__ = ["KeyShare", "Measure", "SkewCause", "TopicSkew", "judge", "key_shares"]

_SKEWED: Final = 1.5
"""A partition is skewed from this many times a fair share on."""
_DEVIATIONS: Final = 4.0
"""A smaller excess, in standard deviations, may be chance."""
_LEAST_RECORDS: Final = 100
_MOST: Final = 0.5
_CONCENTRATED: Final = 0.9
"""A key that has less than this share of its records in one partition is spread by the producer."""
_PLACED: Final = 0.9
_KEYS_CHECKED: Final = 500


class SkewCause(Enum):
    """Why a partition has more than its share; the value is the word in the JSON output."""

    NONE = "none"
    """No partition has much more than its share."""
    UNKNOWN = "too_few_records"
    """The sample is too small to tell."""
    KEY = "key"
    """One key has more than a fair share, or without it its partition would have no more than the others."""
    FEW_KEYS = "few_keys"
    """Each key is where the hash of the partitioner puts it, but the keys are too few or too unequal to spread."""
    NO_KEY = "no_key"
    """Records without a key: the producer chose the partition."""
    PRODUCER = "producer"
    """The keys are not where a usual partitioner puts them: the producer chose the partition in another way."""


class Measure(Enum):
    """What is counted."""

    RECORDS = "records"
    BYTES = "bytes"


class KeyShare(NamedTuple):
    """A key, and its share of the sample."""

    key: FrequentKey
    share: float
    partitions: Mapping[int, float]
    """Its share of the whole sample in each partition."""


@dataclass(frozen=True, slots=True)
class TopicSkew:
    """The judgement of a topic by one measure."""

    measure: Measure
    cause: SkewCause
    partition_count: int
    shares: Mapping[int, float]
    """The share of each partition in the sample."""
    keys: Sequence[KeyShare]
    """The heaviest keys first; also the entry for records without a key."""
    hottest: int | None
    """The partition with the largest share; None if the sample is empty."""

    @property
    def fair_share(self) -> float:
        """The share of each partition if all were equal."""
        return 1 / self.partition_count

    @property
    def hottest_share(self) -> float:
        """The share of the hottest partition."""
        return self.shares[self.hottest] if self.hottest is not None else 0.0

    @property
    def ratio(self) -> float:
        """The share of the hottest partition in fair shares."""
        return self.hottest_share * self.partition_count

    @property
    def empty(self) -> list[int]:
        """The partitions without records in the sample."""
        return sorted(partition for partition, share in self.shares.items() if not share)

    @property
    def heaviest_key(self) -> KeyShare | None:
        """The heaviest key of the hottest partition; None if it has only records without a key."""
        keys = [each for each in self.keys if each.key.key is not None and self.hottest in each.partitions]
        return max(keys, key=lambda each: each.partitions[self._hot()], default=None)

    @property
    def parts_needed(self) -> int | None:
        """Into how many parts the heaviest key has to be divided, so that each has at most a fair share."""
        key = self.heaviest_key
        return ceil(round(key.share * self.partition_count, 6)) if key is not None else None

    def _hot(self) -> int:
        assert self.hottest is not None
        return self.hottest


def judge(sample: TopicSample) -> TopicSkew:
    """Returns the judgement by records; by bytes if the records are even and the bytes are not."""
    by_records = _judge(sample, Measure.RECORDS)
    if by_records.cause is SkewCause.NONE:
        by_bytes = _judge(sample, Measure.BYTES)
        if by_bytes.cause is not SkewCause.NONE:
            return by_bytes
    return by_records


def key_shares(sample: TopicSample) -> tuple[list[KeyShare], list[KeyShare]]:
    """Returns the keys with their shares by records and by bytes, the heaviest first."""
    return list(_judge(sample, Measure.RECORDS).keys), list(_judge(sample, Measure.BYTES).keys)


def _judge(sample: TopicSample, measure: Measure) -> TopicSkew:
    is_bytes = measure is Measure.BYTES
    scales = {each.partition: each.scale for each in sample.partitions}
    counted = {each.partition: each.record_bytes if is_bytes else each.records for each in sample.partitions}
    weights = {partition: weight * scales[partition] for partition, weight in counted.items()}
    total = sum(weights.values())
    count = max(1, len(sample.partitions) + len(sample.unavailable))
    if not total:
        return TopicSkew(measure, SkewCause.UNKNOWN, count, dict.fromkeys(weights, 0.0), (), None)
    shares = {partition: weight / total for partition, weight in weights.items()}
    keys = []
    for key in sample.by_bytes if is_bytes else sample.by_records:
        parts = {partition: weight * scales[partition] / total for partition, weight in key.partitions.items()}
        keys.append(KeyShare(key, sum(parts.values()), parts))
    keys.sort(key=lambda each: each.share, reverse=True)
    hottest = max(shares, key=lambda partition: shares[partition])
    skew = TopicSkew(measure, SkewCause.NONE, count, shares, keys, hottest)
    return TopicSkew(measure, _cause(sample, skew), count, shares, keys, hottest)


def _cause(sample: TopicSample, skew: TopicSkew) -> SkewCause:
    if sample.records < _LEAST_RECORDS or any(each.is_unread for each in sample.partitions):
        return SkewCause.UNKNOWN
    fair = skew.fair_share
    excess = skew.hottest_share - fair
    is_chance = excess < _DEVIATIONS * sqrt(fair / sample.records)
    if skew.partition_count == 1 or skew.ratio < _SKEWED or is_chance:
        return SkewCause.NONE
    hot = skew.hottest
    assert hot is not None
    without_key = sum(each.partitions.get(hot, 0.0) for each in skew.keys if each.key.key is None)
    if without_key >= _MOST * excess:
        return SkewCause.NO_KEY
    key = skew.heaviest_key
    if key is not None and key.partitions[hot] >= _CONCENTRATED * key.share:
        others = (skew.hottest_share - key.partitions[hot]) / (1 - key.share) if key.share < 1 else 0.0
        if key.partitions[hot] > fair or others < _SKEWED * fair:
            return SkewCause.KEY
    return SkewCause.FEW_KEYS if _is_placed_by_hash(skew.keys, hot, skew.partition_count) else SkewCause.PRODUCER


def _is_placed_by_hash(keys: Sequence[KeyShare], hot: int, partition_count: int) -> bool:
    """Returns whether one of the usual partitioners would put the keys of the partition there."""
    checked = [each for each in keys if isinstance(each.key.key, bytes) and hot in each.partitions][:_KEYS_CHECKED]
    everything = sum(each.partitions[hot] for each in checked)
    partitioners: Sequence[Callable[[bytes, int], int]] = (murmur2_partition, crc32_partition)
    return any(
        sum(
            each.partitions[hot]
            for each in checked
            if isinstance(each.key.key, bytes)
            and partitioner(each.key.key, partition_count) == hot
            and each.partitions[hot] >= _CONCENTRATED * each.share
        )
        >= _PLACED * everything
        for partitioner in partitioners
    )
