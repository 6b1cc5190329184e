"""Tests that groups are placed as in Kafka: by Java's hash of the group id over the `__consumer_offsets` partitions."""

from __future__ import annotations

import pytest

from klamm.core.coordinator.java_hash import java_hash, partition_for


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("console-consumer", -648006740),
        ("polygenelubricants", -(2**31)),
        ("grüße", 98768023),
        ("\U0001f600", 1772899),
    ],
)
def test_hash_is_that_of_java_strings(text: str, expected: int) -> None:
    """Hashes are those of `String.hashCode` over UTF-16 units: an emoji counts as its two surrogates."""
    assert java_hash(text) == expected


def test_minimum_hash_counts_as_zero() -> None:
    """The minimum hash, which has no positive counterpart, counts as 0, as in Kafka's `Utils.abs`."""
    assert partition_for("polygenelubricants", 50) == 0


def test_partition_is_within_count() -> None:
    """A negative hash becomes positive before the remainder is taken."""
    assert partition_for("console-consumer", 50) == 648006740 % 50
