"""The replacement of whole partitions in the files of a live flow (`--into live`).

The rows are written to a hidden folder in the sink's folder first. Then the new files are moved to their partitions,
the list of the file sink takes them in place of the old ones, and the old files are removed. Each step can be done
again, and the files of both sides are stored before the first one, so an interrupted replacement is finished by the
same command.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from klamm.insight.words import count
from klamm.pipelines.declare.flow import Flow
from klamm.pipelines.declare.sinks import ToFiles
from klamm.pipelines.run.backfill.backfill_range import SourceRange, log_borders
from klamm.pipelines.run.backfill.backfill_record import BackfillRecord
from klamm.pipelines.run.backfill.backfill_rows import rows_of_range
from klamm.pipelines.run.backfill.file_sink_log import listed_files, replace_listed
from klamm.pipelines.run.backfill.hadoop_files import HadoopFiles
from klamm.pipelines.run.checkpoint_reader import end_of_finished
from klamm.pipelines.run.dead_letter_replay import state_operators
from klamm.pipelines.run.place import Place
from klamm.protocol.types import Offset
from klamm.spark.source.offsets import PartitionOffsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["PartitionReplacement"]

_NEIGHBOURS: Final = 10_000
"""The offsets before and after the range, in each partition of the topics, that are looked at."""
_NAMED: Final = 3
"""The number of partitions that a message names."""


class PartitionReplacement:
    """The replacement of one backfill."""

    def __init__(self, spark: SparkSession, place: Place, flow: Flow, sink: ToFiles, record: BackfillRecord) -> None:
        self._spark = spark
        self._place = place
        self._flow = flow
        self._sink = sink
        self._record = record
        path = place.files_path(sink)
        assert path is not None
        self._files = HadoopFiles(spark, path)
        self._staging: Final = f"_klamm-backfill-{record.arguments.id}"
        self._rows: Final = f"{self._staging}/rows"

    def write_rows(self, rows: DataFrame) -> None:
        """Writes the rows to the hidden folder, in place of what an earlier attempt has left there."""
        writer = rows.write.format(self._sink.format).options(**self._sink.options)
        writer = writer.partitionBy(*self._sink.partition_by).mode("overwrite")
        writer.option("partitionOverwriteMode", "static").save(self._files.path(self._rows))

    def doubts(self, rows: DataFrame) -> list[str]:
        """Returns why a partition might be replaced by a part of its data, a sentence each.

        `rows` has the columns of the rows that are written.
        """
        return [*self._state(), *self._fewer_rows(rows), *self._neighbours(rows)]

    def claim(self) -> None:
        """Stores that files are to be replaced: while this process lives, the flow does not begin to run."""
        self._record.phase = "claimed"
        self._record.store()

    def give_up_claim(self) -> None:
        """Lets the flow run again; the same backfill continues with the computed rows."""
        self._record.phase = "computed"
        self._record.store()

    def prepare(self) -> None:
        """Stores the files of both sides: the replacement begins."""
        new = [each.name for each in self._files.data_files(self._rows)]
        partitions = {_folder(self._target(name)) for name in new}
        old = [name for name in listed_files(self._files) if _folder(name) in partitions]
        self._record.replacement = {"new": new, "old": old}
        self._record.phase = "replacing"
        self._record.store()

    def finish(self) -> int:
        """Replaces the files that `prepare` has stored; continues where an interrupted replacement has ended.

        Returns the number of partitions.
        """
        assert self._record.replacement is not None
        new, old = self._record.replacement["new"], self._record.replacement["old"]
        for name in new:
            if self._files.exists(name):
                self._files.move(name, self._target(name))
        added = [self._files.stored(self._target(name)) for name in new]
        replace_listed(self._files, old, added)
        for name in old:
            self._files.remove(name)
        self.discard()
        return len({_folder(name) for name in new})

    def discard(self) -> None:
        """Removes the hidden folder."""
        self._files.remove(self._staging)

    def _target(self, name: str) -> str:
        return name.removeprefix(f"{self._rows}/")

    def _state(self) -> Iterator[str]:
        if operators := state_operators(self._spark, self._place, self._flow):
            yield (
                f"the flow has state ({', '.join(operators)}): rows that the live flow still has there, such as open "
                "windows, would come a second time"
            )

    def _fewer_rows(self, rows: DataFrame) -> Iterator[str]:
        new = self._counts(rows, [each.name for each in self._files.data_files(self._rows)])
        new = Counter({self._target(f"{folder}/").rstrip("/"): number for folder, number in new.items()})
        old = self._counts(rows, [name for name in listed_files(self._files) if _folder(name) in new])
        fewer = sorted(partition for partition, number in old.items() if number > new[partition])
        for partition in fewer[:_NAMED]:
            yield f"{partition} has {count(old[partition], 'row')} and would get {new[partition]:,}"
        if len(fewer) > _NAMED:
            yield f"and so for {len(fewer) - _NAMED} more partitions"

    def _counts(self, rows: DataFrame, names: Sequence[str]) -> Counter[str]:
        """Returns the number of rows in these files, by their folder."""
        from pyspark.sql import functions as F

        if not names:
            return Counter()
        reader = self._spark.read.format(self._sink.format).options(**self._sink.options)
        reader = reader.schema(rows.drop(*self._sink.partition_by).schema)
        frame = reader.load([self._files.path(name) for name in names]).groupBy(F.col("_metadata.file_path"))
        found: Counter[str] = Counter()
        by_path = {_same(self._files.path(name)): name for name in names}
        for row in frame.agg(F.count(F.lit(1)).alias("rows")).collect():
            found[_folder(by_path[_same(unquote(row["file_path"]))])] += row["rows"]
        return found

    def _neighbours(self, rows: DataFrame) -> Iterator[str]:
        """Yields the partitions that also have rows of records just before or after the range."""
        from pyspark.sql import functions as F

        columns = self._sink.partition_by
        texts = [F.col(name).cast("string").alias(name) for name in columns]
        staged = self._spark.read.format(self._sink.format).options(**self._sink.options).schema(rows.schema)
        replaced = staged.load(self._files.path(self._rows)).select(*texts).distinct()
        finished = end_of_finished(self._place.checkpoint(self._flow.name))
        tolerant = replace(self._flow, bad_records="drop")
        for side, ranges in _slices(self._place, self._flow, self._record.ranges, finished):
            if not any(each.size for each in ranges.values()):
                continue
            found = rows_of_range(
                self._spark, self._place, tolerant, self._sink, ranges, where=self._record.arguments.where
            ).frame.select(*texts)
            same = [found[name].eqNullSafe(replaced[name]) for name in columns]
            for row in found.join(replaced, same, "left_semi").distinct().limit(_NAMED).collect():
                partition = "/".join(f"{name}={row[name]}" for name in columns)
                yield f"{partition} also has rows of records just {side} the range, which would be lost"


def _slices(
    place: Place, flow: Flow, ranges: Mapping[str, SourceRange], finished: PartitionOffsets
) -> Iterator[tuple[str, dict[str, SourceRange]]]:
    """Yields the offsets just before and just after the range, the latter as far as the live flow has read."""
    before, after = {}, {}
    for parameter, own in ranges.items():
        log = log_borders(place, flow, parameter)
        starts = {key: min(log.starts.get(key, start), start) for key, start in own.starts.items()}
        before[parameter] = SourceRange(
            {key: max(starts[key], Offset(start - _NEIGHBOURS)) for key, start in own.starts.items()}, own.starts
        )
        ends = {key: max(end, min(finished.get(key, end), Offset(end + _NEIGHBOURS))) for key, end in own.ends.items()}
        after[parameter] = SourceRange(own.ends, ends)
    yield "before", before
    yield "after", after


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


def _same(path: str) -> str:
    return path.replace("file:///", "file:/", 1)
