"""The placement of groups is Kafka's: Java's hash of the group id, over the partitions of `__consumer_offsets`."""

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
    """Values are those that `String.hashCode` gives, over UTF-16 units: an emoji counts as its two surrogates."""
    assert java_hash(text) == expected


def test_minimum_hash_counts_as_zero() -> None:
    """Kafka's `Utils.abs` maps the one number without a positive counterpart to 0."""
    assert partition_for("polygenelubricants", 50) == 0


def test_partition_is_within_count() -> None:
    """Negative hashes are mirrored before the remainder is taken."""
    assert partition_for("console-consumer", 50) == 648006740 % 50
