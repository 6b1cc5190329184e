"""Decoders in streaming queries: the query of a flow and the query of its dead letters."""

from __future__ import annotations

import json as standard_json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.spark_topics import Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from klamm.pipelines.decoders.decoder import Decoder


def _json() -> Decoder:
    from klamm.pipelines.decoders.json_text import json

    return json("id int, name string NOT NULL")


def _json_schema() -> Decoder:
    from klamm.pipelines.decoders.json_schema import json_schema

    properties = {"id": {"type": "integer", "maximum": 100}, "name": {"type": "string"}}
    return json_schema({"type": "object", "properties": properties, "required": ["name"]})


@pytest.mark.parametrize("make", [_json, _json_schema])
def test_each_record_is_in_one_of_the_two_queries(
    spark: SparkSession, new_topic: Callable[..., Topic], tmp_path: Path, make: Callable[[], Decoder]
) -> None:
    """Good records reach the flow's query, also through an aggregation; all others reach the query of dead letters."""
    from klamm.pipelines.decoders.decoder import DecodingPlace

    topic = new_topic(partitions=2)
    good = [standard_json.dumps({"id": number, "name": str(number % 3)}) for number in range(60)]
    bad = ["x", '{"id":"late","name":"x"}', '{"id":1}', ""]
    topic.produce([*good, *bad])
    pinned = make().pin(DecodingPlace([topic.name]))

    def run(name: str, build: Callable[[DataFrame], DataFrame], mode: str) -> list[Any]:
        rows: list[Any] = []
        records = spark.readStream.format("klamm").options(**topic.options(startingOffsets="earliest")).load()
        (
            build(pinned.decode(records))
            .writeStream.outputMode(mode)
            .option("checkpointLocation", str(tmp_path / name))
            .foreachBatch(lambda batch, _: rows.extend(batch.collect()))
            .trigger(availableNow=True)
            .start()
            .awaitTermination()
        )
        return rows

    counted = run(
        "flow",
        lambda decoded: decoded.filter("bad_reason IS NULL").select("decoded.*").groupBy("name").count(),
        "complete",
    )
    dead = run("dead", lambda decoded: decoded.filter("bad_reason IS NOT NULL").select("value", "bad_reason"), "append")
    assert sorted((row.name, row["count"]) for row in counted) == [("0", 20), ("1", 20), ("2", 20)]
    assert sorted(bytes(row.value).decode() for row in dead) == sorted(bad)
