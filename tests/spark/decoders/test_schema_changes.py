"""Tests a pipeline whose topic gets records of a newer schema in the registry."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.schema_registry import SchemaRegistry
from tests.support.spark_topics import Topic

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from pyspark.sql import DataFrame, SparkSession

pytest.importorskip("fastavro")

_FIRST: list[dict[str, Any]] = [{"name": "id", "type": "int"}]
_SECOND: list[dict[str, Any]] = [*_FIRST, {"name": "note", "type": ["null", "string"], "default": None}]


def _serialize(client: SchemaRegistryClient, topic: Topic, fields: list[dict[str, Any]], value: Any) -> bytes:
    """Returns what another program produces; registers the schema."""
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    schema = json.dumps({"type": "record", "name": "Order", "fields": fields})
    found = AvroSerializer(client, schema)(value, SerializationContext(topic.name, MessageField.VALUE))
    assert isinstance(found, bytes)
    return found


def test_a_flow_keeps_its_schema_when_a_newer_one_is_registered(
    spark: SparkSession,
    new_topic: Callable[..., Topic],
    running_registry: SchemaRegistry,
    registry_client: SchemaRegistryClient,
    tmp_path: Path,
) -> None:
    """A flow has the columns of the newest schema at its first start, in later runs as well: records of a newer schema
    are resolved to it and are not bad. `check` names the version. Without `schema.json` the flow takes the newest."""
    from klamm.pipelines import Pipeline, avro, registry, to_batches, topic
    from klamm.pipelines.run.flow_check import check_flow
    from klamm.pipelines.run.pipeline_run import PipelineRun, chosen_flows
    from klamm.pipelines.run.place import Place

    orders = new_topic()
    pipeline = Pipeline(orders.name)
    rows: list[dict[str, Any]] = []

    def remember(frame: DataFrame, batch_id: int) -> None:
        rows.extend(row.asDict() for row in frame.drop("_record").collect())

    source = topic(orders.name, decode=avro(registry=registry(running_registry.url)))
    pipeline.flow(source=source, sink=to_batches(remember), name="orders", bad_records="fail")(lambda orders: orders)
    place = Place.at(pipeline.name, bootstrap_servers=orders.bootstrap_servers, checkpoints=str(tmp_path))

    def run_after(*values: bytes) -> None:
        orders.produce_records([{"value": value} for value in values])
        assert PipelineRun(spark, pipeline, place, chosen_flows(pipeline, []), once=True).run()

    run_after(_serialize(registry_client, orders, _FIRST, {"id": 1}))
    run_after(_serialize(registry_client, orders, _SECOND, {"id": 2, "note": "new"}))

    assert rows == [{"id": 1}, {"id": 2}]
    (source_check,) = check_flow(spark, place, pipeline.flows["orders"]).sources
    assert source_check.columns is not None
    assert "note" not in source_check.columns
    assert f"the reader schema is version 1 of {orders.name}-value" in source_check.notes
    Path(place.flow_folder("orders"), "schema.json").unlink()
    run_after(_serialize(registry_client, orders, _SECOND, {"id": 3, "note": "seen"}))
    assert rows[2:] == [{"id": 3, "note": "seen"}]
