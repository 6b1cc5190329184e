"""Pipelines: flows from topics to topics, files and tables, on Spark's Structured Streaming.

    from klamm.pipelines import Pipeline, json, to_topic, topic

    pipeline = Pipeline("flights")

    @pipeline.flow(
        source=topic("flights", decode=json("time timestamp, dest string, arr_delay int")),
        sink=to_topic("delays", key="dest"),
    )
    def delays(flights):
        return flights.where("arr_delay > 15")

`klamm pipeline run FILE.py` runs the pipeline of a file. This package imports PySpark, but starts no JVM.
"""

from __future__ import annotations

from klamm.pipelines.declare.bad_records import dead_letters
from klamm.pipelines.declare.declared_start import group
from klamm.pipelines.declare.pipeline import Pipeline
from klamm.pipelines.declare.sinks import to_batches, to_files, to_format, to_topic
from klamm.pipelines.declare.topic_source import topic
from klamm.pipelines.decoders.avro_records import avro
from klamm.pipelines.decoders.json_schema import json_schema
from klamm.pipelines.decoders.json_text import json
from klamm.pipelines.decoders.protobuf_messages import protobuf
from klamm.pipelines.decoders.raw import raw
from klamm.pipelines.decoders.schema_registry import registry
from klamm.pipelines.errors import BadRecord, DeclarationError, PipelineError
from klamm.pipelines.run.written_files import written_files

__all__ = [
    "Pipeline",
    "topic",
    "group",
    "json",
    "json_schema",
    "avro",
    "protobuf",
    "registry",
    "raw",
    "to_topic",
    "to_files",
    "to_format",
    "to_batches",
    "dead_letters",
    "written_files",
    "PipelineError",
    "DeclarationError",
    "BadRecord",
]
