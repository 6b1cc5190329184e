"""Tests the judgement of a topic's skew, and its words."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.insight.samples import sample

from klamm.client.producer.partitioner import murmur2_partition
from klamm.insight.topic.skew_rule import Measure, SkewCause, judge, key_shares
from klamm.insight.topic.skew_sample import PartitionSample, TopicSample
from klamm.insight.topic.skew_words import findings, help_lines


def _by_hash(counts: dict[bytes, int], partition_count: int = 6) -> dict[bytes | None, dict[int, int]]:
    """Returns the records by key, each key in the partition that Java's producer chooses."""
    return {key: {murmur2_partition(key, partition_count): records} for key, records in counts.items()}


def _many(records_each: int = 5, keys: int = 2_000) -> dict[bytes, int]:
    return {b"customer-%d" % number: records_each for number in range(keys)}


def _said(of: TopicSample) -> list[str]:
    skew = judge(of)
    return [*findings(skew), *help_lines(skew)]


def test_many_keys_are_even() -> None:
    """Many equal keys spread evenly."""
    of = sample(_by_hash(_many()))
    assert judge(of).cause is SkewCause.NONE
    assert _said(of)[0].startswith("the partitions are even: partition ")
    assert _said(of)[1].startswith("if a group lags, its partitions are not the reason")


def test_one_hot_key_is_the_cause() -> None:
    """A key with more than a fair share is named, with what helps and what does not."""
    of = sample(_by_hash(_many() | {b"customer-17": 10_000}))
    skew = judge(of)
    assert (skew.cause, skew.measure, skew.parts_needed) == (SkewCause.KEY, Measure.RECORDS, 4)
    assert skew.heaviest_key is not None
    assert skew.heaviest_key.key.key == b"customer-17"
    said = _said(of)
    assert said[0] == (
        'partition 4 has 58.4 % of the records, 3.5 times a fair share (16.7 %): the key "customer-17" alone has 50.0 %'
    )
    assert said[1] == "more partitions do not help: the key stays in one partition, with 50.0 % of the records"
    assert "in 4 parts each has 12.5 %, no more than a fair share" in said[2]
    assert 'klamm.worker with order="key" helps the other keys of the partition (8.4 %)' in said[3]
    assert "needs 3.5 times the pace of an average owner; the assignor `load`" in said[4]


def test_a_key_below_a_fair_share_may_be_the_cause() -> None:
    """A key is the cause if its partition would be even without it."""
    of = sample(_by_hash(_many() | {b"customer-17": 1_500}))
    skew = judge(of)
    assert (skew.cause, skew.parts_needed) == (SkewCause.KEY, 1)
    assert 'the key "customer-17" has 13.0 %' in _said(of)[0]
    assert not any("parts each" in line for line in _said(of))


def test_equal_keys_are_no_hot_key() -> None:
    """If a producer writes all keys to one partition, no single key is the cause, however few they are."""
    of = sample({b"k%d" % number: {0: 950, 1: 25, 2: 25} for number in range(3)}, range(3))
    assert judge(of).cause is SkewCause.PRODUCER


def test_few_keys_are_the_cause() -> None:
    """If several keys share a partition by their hash, the number of keys is the reason, not one of them."""
    at_two = [key for key in (b"k%d" % number for number in range(200)) if murmur2_partition(key, 6) == 2][:6]
    others = [key for key in (b"k%d" % number for number in range(200)) if murmur2_partition(key, 6) != 2][:6]
    of = sample(_by_hash(dict.fromkeys([*at_two, *others], 100)))
    assert judge(of).cause is SkewCause.FEW_KEYS
    said = _said(of)
    assert (
        "partition 2 has 50.0 % of the records, 3.0 times a fair share (16.7 %): by their hash, 6 of 12 keys" in said[0]
    )
    assert any(line.startswith("more partitions help only as far as they separate these keys") for line in said)


def test_fewer_keys_than_partitions_leave_partitions_empty() -> None:
    """A partition without any key is told, even if no other has too much."""
    keys = {b"k%d" % number: 100 for number in range(200)}
    first = {murmur2_partition(key, 6): key for key in keys}
    of = sample(_by_hash({key: 100 for partition, key in first.items() if partition != 4}))
    assert judge(of).cause is SkewCause.NONE
    assert "partition 4 got no records: there are 5 keys" in _said(of)
    assert "no more than 5 members of a group can have work; a key with more different values helps" in _said(of)


def test_records_without_a_key_are_the_producers_choice() -> None:
    """Records without a key in one partition are told as such."""
    of = sample({**_by_hash(_many()), None: {0: 4_000}})
    assert judge(of).cause is SkewCause.NO_KEY
    assert "are its records without a key, for which the producer chooses the partition" in _said(of)[0]


def test_keys_that_no_hash_puts_there_are_the_producers_choice() -> None:
    """If many keys are in one partition where no usual partitioner puts them, the producer is the reason."""
    of = sample({key: {0: records} for key, records in _many().items()})
    assert judge(of).cause is SkewCause.PRODUCER
    assert "its keys are not where the hash of a usual partitioner" in _said(of)[0]


def test_a_key_in_several_partitions_is_told() -> None:
    """If the records of a hot key are in several partitions, they have no order, and the key is not the reason."""
    of = sample({b"hot": {0: 3_000, 1: 1_000, 2: 1_000}})
    assert judge(of).cause is SkewCause.PRODUCER
    assert 'no order within a key: its records are in several partitions: "hot" (0-2)' in _said(of)


def test_large_records_are_found_by_bytes() -> None:
    """If the records are even and the bytes are not, the bytes are judged."""
    of = sample(_by_hash(_many() | {b"large": 20}), sizes={b"large": 10_000})
    skew = judge(of)
    assert (skew.measure, skew.cause) == (Measure.BYTES, SkewCause.KEY)
    assert " of the bytes, " in _said(of)[0]
    records, size_bytes = key_shares(of)
    assert (records[0].key.key, size_bytes[0].key.key) == (b"large", b"large")


def test_small_samples_are_not_judged() -> None:
    """A hundred records are needed; an empty topic has nothing to judge."""
    assert judge(sample({b"a": {0: 60}, b"b": {1: 10}})).cause is SkewCause.UNKNOWN
    empty = judge(sample({}))
    assert (empty.cause, empty.hottest, empty.hottest_share) == (SkewCause.UNKNOWN, None, 0.0)
    assert list(findings(empty)) == ["there are too few records to judge the partitions by"]


def test_chance_is_not_called_skew() -> None:
    """With many partitions and few records, a partition with twice the average may be chance."""
    of = sample({b"k%d" % index: {index: 4 if index else 8} for index in range(50)}, range(50))
    assert judge(of).cause is SkewCause.NONE


def test_one_partition_can_not_be_uneven() -> None:
    """A topic with one partition has no skew; its hottest key is still told."""
    of = sample({b"a": {0: 900}, b"b": {0: 100}}, [0])
    assert _said(of) == [
        'the topic has one partition, so nothing can be uneven; its hottest key "a" has 90.0 % of the records'
    ]


def test_a_sample_that_was_cut_is_scaled_up() -> None:
    """A partition that was read only in part counts with its whole range."""
    of = sample({b"a": {0: 500}, b"b": {1: 500}}, range(2), cut_by="time")
    half, whole = of.partitions
    cut = replace(of, partitions=(_half_read(half), whole))
    shares = judge(cut).shares
    assert (round(shares[0], 3), round(shares[1], 3)) == (0.667, 0.333)
    assert [round(each.share, 3) for each in judge(cut).keys] == [0.667, 0.333]


def _half_read(partition: PartitionSample) -> PartitionSample:
    return replace(partition, end=1_000, target=1_000)
