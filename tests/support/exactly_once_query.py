"""A query with `klamm.sink.semantics=exactly-once`, its input, and what a reader of its topic gets."""

from __future__ import annotations

import itertools
import json
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.spark_driver import SparkDriver
from tests.support.spark_topics import Topic
from tests.support.stopping_files import read_files
from tests.support.stopping_sink import POINTS_OPTION, Points, StoppingSink, StoppingSinkUnderKlammsName

import klamm.spark
from klamm.client.cluster import Cluster
from klamm.client.config import ClientConfig
from klamm.client.fetch import stream_batches
from klamm.protocol.record_batch import iterate_batches
from klamm.protocol.types import Offset, PartitionIndex, TopicPartition
from klamm.spark.data_source import KlammDataSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

__all__ = ["Query", "codecs", "committed"]


class Query:
    """A query that copies the lines of files into a topic, a micro-batch for each file.

    With `other_topics`, it spreads the lines over `topic` and these topics, which the rows name in a column. The marker
    is then in `topic`.
    """

    def __init__(
        self, spark: SparkSession, topic: Topic, folder: Path, other_topics: Sequence[Topic] = (), /, **options: str
    ) -> None:
        self.is_in_foreach_batch = False
        """Whether `klamm.spark.write_topic` writes the micro-batches."""
        self.repeats_failed_writes = False
        """Whether the function of `foreachBatch` repeats a write that failed."""
        self.is_planned_at_points = False
        """Whether the source reaches the points of `PLANNING_POINTS`."""
        self.spark, self.topic, self.folder = spark, topic, folder
        self.topics = (topic, *other_topics)
        """The topics of the rows."""
        self.input, self.checkpoint = folder / "input", folder / "checkpoint"
        self.input.mkdir()
        self.points = Points(folder)
        self._drivers = 0
        self.added: list[Counter[bytes | None]] = []
        """The rows of each file."""
        self.options = {
            "kafka.bootstrap.servers": topic.bootstrap_servers,
            "klamm.sink.marker.topic" if other_topics else "topic": topic.name,
            "klamm.sink.semantics": "exactly-once",
            "checkpointLocation": str(self.checkpoint),
            POINTS_OPTION: str(folder),
            **options,
        }

    def add(self) -> None:
        """Adds a file with rows that no other file has."""
        number = len(self.added)
        lines = [f"{number}-{line}" for line in range(50)]
        (self.folder / "new").write_text("".join(f"{line}\n" for line in lines))
        # The source takes files in the order of their times.
        os.utime(self.folder / "new", (1_700_000_000 + number, 1_700_000_000 + number))
        (self.folder / "new").rename(self.input / f"{number}.txt")
        self.added.append(Counter(line.encode() for line in lines))

    def run(self, **how: Any) -> None:
        """Starts the query, and waits until all files are processed. Raises what ends it. `how` is that of `start`."""
        self.start(**how).awaitTermination()

    def start(self, tasks: int = 2, value: str = "value", other: Sequence[str] = (), **options: str) -> StreamingQuery:
        """Starts the query, which ends when all files are processed.

        `value` is the expression for the values, and `other` are the expressions of more columns. An underscore in the
        name of an option stands for a dot.
        """
        lines = read_files(self.spark, self.input, self.folder if self.is_planned_at_points else None)
        more = {name.replace("_", "."): text for name, text in options.items()}
        rows = lines.repartition(tasks).selectExpr(f"{value} value", *self._topic_column(), *other)
        found = {**self.options, **more}
        if not self.is_in_foreach_batch:
            self.spark.dataSource.register(StoppingSink)
            writer = rows.writeStream.format("klamm-stopping").options(**found)
            return writer.trigger(availableNow=True).start()
        # `write_topic` refuses options that it does not know. The sink finds the points next to the checkpoint.
        write = klamm.spark.write_topic(**{name: text for name, text in found.items() if name != POINTS_OPTION})

        def write_at_points(frame: DataFrame, batch_id: int) -> None:
            frame.sparkSession.dataSource.register(StoppingSinkUnderKlammsName)
            try:
                write(frame, batch_id)
            except Exception:
                if not self.repeats_failed_writes:
                    raise
                write(frame, batch_id)
            finally:
                frame.sparkSession.dataSource.register(KlammDataSource)

        writer = rows.writeStream.foreachBatch(write_at_points).option("checkpointLocation", str(self.checkpoint))
        return writer.trigger(availableNow=True).start()

    def driver(self, master: str = "local[2,4]", *, has_points: bool = False, **settings: str) -> SparkDriver:
        """Starts the query in a driver of its own; without points as a user runs it. An underscore in the name of one
        of Spark's settings stands for a dot."""
        options = {key: value for key, value in self.options.items() if has_points or key != POINTS_OPTION}
        self._drivers += 1
        return SparkDriver(
            self.folder / f"driver-{self._drivers}.log",
            "tests.support.exactly_once_driver",
            input=str(self.input),
            options=options,
            master=master,
            is_planned_at_points=has_points and self.is_planned_at_points,
            settings={name.replace("_", "."): text for name, text in settings.items()},
        )

    @property
    def group_id(self) -> str:
        """The group that has the marker."""
        return f"klamm.sink.{json.loads((self.checkpoint / 'metadata').read_text())['id']}"

    def first_batch(self, number: int) -> str:
        """Returns the value of `klamm.sink.first.batch` for a micro-batch of this query."""
        return f"{self.group_id.removeprefix('klamm.sink.')}/{number}"

    def forget_commit(self, batch_id: int) -> None:
        """Makes Spark repeat a micro-batch."""
        for name in (f"{batch_id}", f".{batch_id}.crc"):
            (self.checkpoint / "commits" / name).unlink(missing_ok=True)

    def plan_earlier(self, batch_id: int, minutes: int) -> None:
        """Changes the checkpoint as if Spark had planned a micro-batch earlier."""
        offsets = self.checkpoint / "offsets" / f"{batch_id}"
        version, plan, *rest = offsets.read_text().split("\n")
        fields = json.loads(plan)
        fields["batchTimestampMs"] -= minutes * 60_000
        offsets.write_text("\n".join([version, json.dumps(fields), *rest]))
        offsets.with_name(f".{batch_id}.crc").unlink(missing_ok=True)

    def written(self, files: int) -> Counter[bytes | None]:
        """The rows of the first files."""
        return sum(self.added[:files], Counter())

    def written_to_each(self, files: int) -> list[Counter[bytes | None]]:
        """The rows of the first files, divided by topic."""
        each: list[Counter[bytes | None]] = [Counter() for _ in self.topics]
        for line, count in self.written(files).items():
            assert line is not None
            each[int(line.split(b"-")[1]) % len(each)][line] += count
        return each

    def committed_in_each(self) -> list[Counter[bytes | None]]:
        """Returns the values that a `read_committed` reader of each topic gets now."""
        return [committed(topic) for topic in self.topics]

    def _topic_column(self) -> list[str]:
        """The expression of the column `topic`, if there are several: the number of the line chooses the topic."""
        if len(self.topics) == 1:
            return []
        names = ", ".join(f"'{topic.name}'" for topic in self.topics)
        return [f"element_at(array({names}), 1 + int(substring_index(value, '-', -1)) % {len(self.topics)}) topic"]

    def staged(self) -> list[Path]:
        """The files that wait for a commit."""
        return [path for path in (self.checkpoint / "klamm-sink").rglob("*") if path.is_file()]


def committed(topic: Topic) -> Counter[bytes | None]:
    """Returns the values that a `read_committed` reader gets now."""
    return Counter(record.value for record in itertools.chain(*topic.records()))


def codecs(topic: Topic) -> set[str]:
    """Returns the names of the codecs of all record batches in the topic, without the markers of transactions."""
    found = set()
    with closing(Cluster(ClientConfig.from_mapping({"bootstrap.servers": topic.bootstrap_servers}))) as cluster:
        for index, end in enumerate(topic.ends()):
            partition = TopicPartition(topic.name, PartitionIndex(index))
            for fetched in stream_batches(cluster, partition, Offset(0), Offset(end)) if end else ():
                batches = [header for _, header in iterate_batches(fetched.records)]
                found |= {each.compression.name.lower() for each in batches if not each.is_control}
    return found
