"""Tests the count of frequent keys in bounded memory."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from klamm.insight.topic.frequent_keys import FrequentKey, FrequentKeys, LongKey, record_key


def test_counts_are_exact_while_there_are_few_keys() -> None:
    """Up to twice the capacity, each key has its exact weight and its partitions; null is a key too."""
    keys = FrequentKeys(capacity=2)
    for key, partition, weight in ((b"a", 0, 1), (b"b", 1, 5), (None, 2, 2), (b"a", 3, 2)):
        keys.add(key, partition, weight)
    assert keys.is_exact
    assert keys.heaviest() == [
        FrequentKey(b"b", 5, 0, {1: 5}),
        FrequentKey(b"a", 3, 0, {0: 1, 3: 2}),
        FrequentKey(None, 2, 0, {2: 2}),
    ]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), max_size=400), st.integers(1, 8))
def test_limits_hold_for_each_stream(stream: list[tuple[int, int]], capacity: int) -> None:
    """Memory is bounded, a count is at most too low by `missed`, and `missed` by the total divided by the capacity."""
    keys = FrequentKeys(capacity)
    real: Counter[bytes] = Counter()
    for number, weight in stream:
        key = b"%d" % number
        real[key] += weight
        keys.add(key, 0, weight)
        assert len(keys) <= 2 * capacity
    found = {each.key: each for each in keys.heaviest() if isinstance(each.key, bytes)}
    for key, each in found.items():
        assert isinstance(key, bytes)
        assert each.weight <= real[key] <= each.weight + each.missed
        assert each.missed <= sum(real.values()) / capacity
    for real_key, weight in real.items():
        assert real_key in found or weight <= 2 * sum(real.values()) / capacity


def test_a_hot_key_stays_among_very_many() -> None:
    """A key with a tenth of all records is found among keys that occur once each."""
    keys = FrequentKeys(capacity=50)
    for number in range(10_000):
        keys.add(b"hot" if number % 10 == 0 else b"%d" % number, 0, 1)
    hottest = keys.heaviest()[0]
    assert (hottest.key, keys.is_exact) == (b"hot", False)
    assert 800 <= hottest.weight <= 1_000


def test_a_long_key_is_not_kept() -> None:
    """A long key is counted by its hash, and shown by its beginning. Two keys with the same beginning are different."""
    one, other = record_key(b"x" * 300), record_key(b"x" * 299 + b"y")
    assert isinstance(one, LongKey)
    assert (one.start, one.length) == (b"x" * 64, 300)
    assert one != other
    assert record_key(b"x" * 256) == b"x" * 256
