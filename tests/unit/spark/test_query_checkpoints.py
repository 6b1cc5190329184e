"""The driver tells the source's processes where their queries' checkpoints are."""

from __future__ import annotations

from klamm.spark.query_checkpoints import fingerprint


def test_a_fingerprint_does_not_depend_on_order_or_case() -> None:
    """Spark lowers keys on some of its ways, and sorts them on none."""
    assert fingerprint({"subscribe": "a", "kafka.Group.Id": "g"}) == fingerprint(
        {"kafka.group.id": "g", "Subscribe": "a"}
    )
    assert fingerprint({"subscribe": "a"}) != fingerprint({"subscribe": "A"})
