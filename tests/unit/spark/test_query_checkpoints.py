"""Tests how the driver tells the source's processes where their queries' checkpoints are."""

from __future__ import annotations

from klamm.spark.query_checkpoints import fingerprint


def test_a_fingerprint_does_not_depend_on_order_or_case() -> None:
    """The fingerprint ignores the order and the case of option names, because Spark lowercases some names and sorts
    none."""
    assert fingerprint({"subscribe": "a", "kafka.Group.Id": "g"}) == fingerprint(
        {"kafka.group.id": "g", "Subscribe": "a"}
    )
    assert fingerprint({"subscribe": "a"}) != fingerprint({"subscribe": "A"})
