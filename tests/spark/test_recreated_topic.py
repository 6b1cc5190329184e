"""Tests what a stream reads of a topic that is created again, with `failOnDataLoss=false`. Needs no Spark session."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.support.spark_topics import Topic

from klamm.spark.source.options.options import SourceOptions
from klamm.spark.source.stream_reader import KlammStreamReader


class Stream:
    """A query that plans and reads micro-batches as Spark does."""

    def __init__(self, topic: Topic, **more: str) -> None:
        options = topic.options(startingOffsets="earliest", failOnDataLoss="false", **more)
        self.reader = KlammStreamReader(SourceOptions.for_stream(options))
        self.position = self.reader.initialOffset()

    def batch(self, before_the_tasks: Callable[[], None] = lambda: None) -> list[str]:
        """Returns the values of the next micro-batch."""
        end = self.reader.latestOffset(self.position, self.reader.getDefaultReadLimit())
        tasks = self.reader.partitions(self.position, end)
        before_the_tasks()
        self.position = end
        return [
            value.decode()
            for task in tasks
            for table in self.reader.read(task)
            for value in table.column("value").to_pylist()
        ]


@pytest.mark.parametrize("partitions", [1, 2], ids=["range alone", "ranges together"])
def test_records_of_a_new_topic_come_once(new_topic: Callable[..., Topic], partitions: int) -> None:
    """A task that was planned for the old topic returns no records of the new topic: the query then reads the new topic
    from its start, so it would return these records twice."""
    topic = new_topic(partitions=partitions)

    def fill(name: str, numbers: range) -> None:
        for partition in range(partitions):
            topic.produce([f"{name}-{partition}-{number}" for number in numbers], partition)

    def make_anew() -> None:
        topic.delete()
        topic.make_again(partitions)
        fill("new", range(25))

    fill("old", range(10))
    stream = Stream(topic)
    assert len(stream.batch()) == 10 * partitions
    fill("old", range(10, 20))

    values = stream.batch(make_anew)
    values += stream.batch()
    values += stream.batch()
    stream.reader.stop()

    wanted = [f"new-{partition}-{number}" for partition in range(partitions) for number in range(25)]
    assert sorted(values) == sorted(wanted)
