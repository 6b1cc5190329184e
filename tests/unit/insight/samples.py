"""Short ways to build samples of topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from klamm.insight.topic.frequent_keys import FrequentKeys, record_key
from klamm.insight.topic.skew_sample import PartitionSample, TopicSample

__all__ = ["sample"]


def sample(
    counts: Mapping[bytes | None, Mapping[int, int]],
    partitions: Iterable[int] = range(6),
    *,
    sizes: Mapping[bytes | None, int] | None = None,
    **fields: Any,
) -> TopicSample:
    """Returns a whole sample of orders. `counts` has the records by key and partition, `sizes` a record's bytes by key
    (else 10)."""
    found = {index: PartitionSample(index, 0, 0) for index in partitions}
    by_records, by_bytes = FrequentKeys(), FrequentKeys()
    for key, places in counts.items():
        size_bytes = (sizes or {}).get(key, 10)
        for index, records in places.items():
            each = found[index]
            each.records += records
            each.record_bytes += records * size_bytes
            by_records.add(record_key(key), index, records)
            by_bytes.add(record_key(key), index, records * size_bytes)
    for each in found.values():
        each.end = each.position = each.target = each.records
    given: dict[str, Any] = {
        "topic": "orders",
        "partitions": tuple(found.values()),
        "unavailable": (),
        "by_records": by_records.heaviest(),
        "by_bytes": by_bytes.heaviest(),
        "keys": len(by_records),
        "are_keys_exact": True,
    }
    return TopicSample(**given | fields)
