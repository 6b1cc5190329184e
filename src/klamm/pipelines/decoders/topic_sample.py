"""A bounded sample of a topic's newest records, read with the batch source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from klamm.client.cluster import Cluster
from klamm.protocol.types import Offset
from klamm.spark.source.offsets import offsets_to_json
from klamm.spark.source.options.options import SourceOptions
from klamm.spark.source.planning.log_offsets import SubscribedOffsets

__all__ = ["sample_values"]

_SUBSCRIPTION: Final = ("kafka.", "subscribe", "subscribepattern", "assign")


def sample_values(spark: SparkSession, options: Mapping[str, str], records: int) -> list[bytes]:
    """Returns the values of about `records` of the newest records, without tombstones, from all partitions.

    `options` are those of the source; only the cluster and the topics count. Where the newest offsets have no records
    (compaction, transactions), the sample comes from the start of the log.
    """
    asked = {key: value for key, value in options.items() if key.lower().startswith(_SUBSCRIPTION)}
    asked = {key: value for key, value in asked.items() if key.lower() != "kafka.group.id"}
    parsed = SourceOptions.for_batch(asked)
    cluster = Cluster(parsed.client)
    try:
        log = SubscribedOffsets(cluster, parsed.subscription)
        latest = log.latest()
        earliest = log.earliest(latest)
    finally:
        cluster.close()
    filled = {at: end for at, end in latest.items() if end > earliest.get(at, end)}
    if not filled:
        return []
    share = -(-records // len(filled))
    start = {at: Offset(max(earliest[at], end - share)) if at in filled else end for at, end in latest.items()}
    for starting in (json.dumps(offsets_to_json(start)), "earliest"):
        rows = spark.read.format("klamm").options(
            **{**asked, "startingOffsets": starting, "endingOffsets": json.dumps(offsets_to_json(latest))}
        )
        if values := _values(rows.load(), records):
            return values
    return []


def _values(rows: DataFrame, records: int) -> list[bytes]:
    values = rows.filter(F.col("value").isNotNull()).select("value").limit(records)
    return [bytes(row.value) for row in values.collect()]
