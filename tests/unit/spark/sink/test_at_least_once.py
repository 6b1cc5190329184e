"""Tests that an at-least-once commit needs the message of each task."""

from __future__ import annotations

import pytest
from pyspark.sql.datasource import WriterCommitMessage

from klamm.spark.sink.at_least_once import AtLeastOnce
from klamm.spark.sink.errors import WriteFailed
from klamm.spark.sink.sink_columns import SinkColumns
from klamm.spark.sink.sink_options import SinkOptions


def test_a_task_without_a_message_fails_the_commit() -> None:
    """A task that has passed no message has not written its rows, as with Spark's continuous trigger: the checkpoint
    must not advance."""
    options = SinkOptions.parse({"kafka.bootstrap.servers": "localhost:9092", "topic": "t"})
    delivery = AtLeastOnce(options, SinkColumns(value=0))
    delivery.commit([WriterCommitMessage(), WriterCommitMessage()], 3)
    delivery.commit([], 3)

    with pytest.raises(WriteFailed, match=r"micro-batch 3: the message of a task is missing.*trigger\(continuous=…\)"):
        delivery.commit([WriterCommitMessage(), None], 3)
