"""Tests backfills into the live sink: whole partitions of a flow's files are replaced."""

from __future__ import annotations

import json as standard_json
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest
from tests.spark.pipelines.conftest import Background, Runs
from tests.spark.pipelines.test_backfill import backfill
from tests.support.spark_topics import Topic

from klamm.pipelines import Pipeline, PipelineError, json, to_files, topic
from klamm.pipelines.run.backfill import file_sink_log, partition_replacement
from klamm.pipelines.run.backfill.partition_replacement import PartitionReplacement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DAYS = ("2026-01-29", "2026-01-30 a:b/c%", "2026-01-31")


class Sink:
    """A flow that writes files by day, from a topic with four records for each of three days."""

    def __init__(self, runs: Runs, name: str, flights: Topic, folder: Path) -> None:
        self.runs = runs
        self.name = name
        self.flights = flights
        self.folder = folder
        for day in DAYS:
            self.produce(day, 4)

    def produce(self, day: str, number: int) -> None:
        self.flights.produce([standard_json.dumps({"day": day, "delay": at}) for at in range(number)])

    def pipeline(
        self, factor: int = 1, condition: str = "true", function: Callable[..., Any] | None = None
    ) -> Pipeline:
        pipeline = Pipeline(self.name)
        source = topic(self.flights.name, decode=json("day string, delay int"), max_records_per_batch=1)

        def scaled(flights: DataFrame) -> DataFrame:
            return flights.selectExpr(f"delay * {factor} AS delay", "day").where(condition)

        pipeline.flow(
            source=source, sink=to_files(str(self.folder), partition_by="day"), bad_records="drop", name="late"
        )(function or scaled)
        return pipeline

    def rows(self) -> Counter[tuple[str, int]]:
        """Returns what Spark reads."""
        frame = self.runs.spark.read.parquet(str(self.folder))
        return Counter((row.day, row.delay) for row in frame.collect())

    def files(self) -> int:
        """Returns the number of files that other readers find."""
        return len(ds.dataset(self.folder, partitioning="hive", exclude_invalid_files=True).files)


def expected(*factors: int) -> Counter[tuple[str, int]]:
    return Counter((day, at * factor) for day, factor in zip(DAYS, factors, strict=True) for at in range(4))


@pytest.fixture
def sink(runs: Runs, name: str, new_topic: Callable[..., Topic], tmp_path: Path) -> Sink:
    """Returns the sink of a flow that has read all of its topic, in twelve micro-batches."""
    sink = Sink(runs, name, new_topic(), tmp_path / "data by day")
    assert runs.once(sink.pipeline())
    assert sink.rows() == expected(1, 1, 1)
    return sink


def test_whole_partitions_are_replaced(sink: Sink, runs: Runs) -> None:
    """The rows of a day are replaced for Spark's readers and for those that list the folder, also where the list of
    files has been compacted. The other days stay, and the flow continues with its checkpoint."""
    assert any(path.suffix == ".compact" for path in (sink.folder / "_spark_metadata").iterdir())

    outcome = backfill(runs, sink.pipeline(factor=10), "live", "4", "8")

    assert (outcome.partitions, outcome.counts.rows, outcome.doubts) == (1, 4, [])
    assert sink.rows() == expected(1, 10, 1)
    assert sink.files() == 9  # 4, 1 and 4
    assert not list(sink.folder.glob("_klamm*"))
    assert sink.flights.committed(f"{sink.name}.late", 1) == [12]

    for _ in range(2):
        sink.produce("2026-02-01", 5)
        assert runs.once(sink.pipeline())
    assert sink.rows() == expected(1, 10, 1) + Counter(("2026-02-01", at) for at in range(5) for _ in range(2))
    assert backfill(runs, sink.pipeline(factor=100), "live").partitions == 4
    assert sink.rows()["2026-02-01", 400] == 2


def test_an_interrupted_replacement_is_finished(sink: Sink, runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replacement that ends in the middle of its steps is finished by the same command, and by no other one. The flow
    does not run before that, also if it was about to start when the replacement began."""
    replaced = file_sink_log.replace_listed
    for step in range(2):

        def interrupted(*arguments: Any, step: int = step) -> None:
            if step:
                replaced(*arguments)
            raise KeyboardInterrupt

        factor = 10 + step
        about_to_start = runs.run(sink.pipeline())
        with monkeypatch.context() as patched:
            patched.setattr(partition_replacement, "replace_listed", interrupted)
            with pytest.raises(KeyboardInterrupt):
                backfill(runs, sink.pipeline(factor), "live", "4", "8")
        with pytest.raises(PipelineError, match="Finish it first: --from 4 --to 8 --into live"):
            backfill(runs, sink.pipeline(factor), "live", "0", "8")
        with pytest.raises(PipelineError, match=r"can't run while .* backfill … --from 4 --to 8 --into live"):
            runs.once(sink.pipeline())
        with pytest.raises(PipelineError, match=r"can't run while a backfill replaces its files"):
            about_to_start.run()
        assert runs.status(sink.pipeline(), "late").state == "stopped"
        assert backfill(runs, sink.pipeline(), "live", "4", "8").partitions == 1
        assert sink.rows() == expected(1, factor, 1)
        assert sink.files() == 9


def test_a_partition_is_not_replaced_by_a_part_of_its_data(sink: Sink, runs: Runs) -> None:
    """A range in the midst of a day, and fewer rows than before, are told before anything is changed; --where chooses
    the whole partitions of a wider range, and --force overrides the doubts."""
    half = "2026-01-30 a%3Ab%2Fc%25"
    with pytest.raises(PipelineError, match="Nothing is changed") as refused:
        backfill(runs, sink.pipeline(factor=10), "live", "6", "10")
    told = str(refused.value)
    assert f"day={half} has 4 rows and would get 2" in told
    assert "day=2026-01-31 also has rows of records just after the range" in told
    assert f"day={DAYS[1]} also has rows of records just before the range" in told
    with pytest.raises(PipelineError, match="day=2026-01-29 has 4 rows and would get 2"):
        backfill(runs, sink.pipeline(condition="delay < 2"), "live")
    with pytest.raises(PipelineError, match=r"can only name the columns day"):
        backfill(runs, sink.pipeline(), "live", where="delay > 1")
    assert sink.rows() == expected(1, 1, 1)
    assert not list(sink.folder.glob("_klamm*"))

    assert backfill(runs, sink.pipeline(factor=10), "live", "2", "10", where=f"day = '{DAYS[1]}'").partitions == 1
    assert sink.rows() == expected(1, 10, 1)
    forced = backfill(runs, sink.pipeline(condition="delay < 2"), "live", "8", force=True)
    assert (forced.partitions, len(forced.doubts)) == (1, 1)
    assert sink.rows()[DAYS[2], 2] == 0


def test_an_unfinished_micro_batch_is_finished_first(sink: Sink, runs: Runs) -> None:
    """After a crash, the files may have the rows of a micro-batch that is not finished, which Spark would not write
    again: a backfill into the live sink waits until the flow has finished it."""
    pipeline = sink.pipeline()
    commits = Path(runs.place(pipeline).checkpoint("late"), "commits")
    (commits / "11").unlink()
    (commits / ".11.crc").unlink(missing_ok=True)

    with pytest.raises(PipelineError, match="flow late has a micro-batch that is not finished"):
        backfill(runs, pipeline, "live")
    assert runs.once(pipeline)
    backfill(runs, pipeline, "live")

    assert sink.rows() == expected(1, 1, 1)


def test_a_flow_that_was_killed_while_the_rows_were_computed(
    sink: Sink, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flow runs while the rows are computed, and is killed in a micro-batch. Its files are not replaced before it
    has finished this micro-batch, for which it may run."""
    pipeline = sink.pipeline(factor=10)
    commit = Path(runs.place(pipeline).checkpoint("late"), "commits", "11")
    written = PartitionReplacement.write_rows

    def killed_meanwhile(self: PartitionReplacement, rows: DataFrame) -> None:
        written(self, rows)
        commit.unlink()
        commit.with_name(f".{commit.name}.crc").unlink(missing_ok=True)

    with monkeypatch.context() as patched:
        patched.setattr(PartitionReplacement, "write_rows", killed_meanwhile)
        with pytest.raises(PipelineError, match="flow late has a micro-batch that is not finished"):
            backfill(runs, pipeline, "live")
    assert sink.rows() == expected(1, 1, 1)

    assert runs.once(sink.pipeline())
    assert backfill(runs, pipeline, "live").partitions == 3
    assert sink.rows() == expected(10, 10, 10)


def test_a_flow_that_begins_while_partitions_are_checked(
    sink: Sink, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flow does not run from the moment on when the partitions are checked: rows that it wrote after the check
    would be replaced too. After the replacement it writes them."""
    doubts = PartitionReplacement.doubts

    def begun_meanwhile(self: PartitionReplacement, rows: DataFrame) -> list[str]:
        found = doubts(self, rows)
        sink.produce(DAYS[1], 1)
        with suppress(PipelineError):
            runs.once(sink.pipeline())
        return found

    with monkeypatch.context() as patched:
        patched.setattr(PartitionReplacement, "doubts", begun_meanwhile)
        assert backfill(runs, sink.pipeline(factor=10), "live", "4", "8").partitions == 1

    assert runs.once(sink.pipeline())
    assert sink.rows() == expected(1, 10, 1) + Counter([(DAYS[1], 0)])


def test_the_live_flow_and_a_replacement(sink: Sink, runs: Runs) -> None:
    """A range that the flow has not read yet is refused. While the flow runs, the rows are computed and kept, also in
    the midst of a micro-batch, and replace the old ones when it has ended. Rows that the flow still has in its state
    are a doubt."""
    sink.produce(DAYS[2], 1)
    with pytest.raises(PipelineError, match=r"has read .* only to offset 12, and the range ends at 13"):
        backfill(runs, sink.pipeline(), "live", "8", "latest")
    live = Background(runs.run(sink.pipeline(), once=False))
    live.wait_for(lambda: sink.flights.committed(f"{sink.name}.late", 1) == [13])
    commit = Path(runs.place(sink.pipeline()).checkpoint("late"), "commits", "12")
    finished = commit.read_bytes()
    commit.unlink()  # as in the midst of the micro-batch
    with pytest.raises(PipelineError, match=r"The rows are computed and kept: end it with `klamm pipeline stop`"):
        backfill(runs, sink.pipeline(factor=10), "live", "8", "12")
    commit.write_bytes(finished)
    with pytest.raises(PipelineError, match=r"The rows are computed and kept: end it with `klamm pipeline stop`"):
        backfill(runs, sink.pipeline(factor=10), "live", "8")
    live.run.request_stop()
    assert live.join() is True
    assert sink.rows() == expected(1, 1, 1) + Counter([(DAYS[2], 0)])

    assert backfill(runs, sink.pipeline(factor=10), "live", "8").counts.rows == 5
    assert sink.rows() == expected(1, 1, 10) + Counter([(DAYS[2], 0)])
    distinct = sink.pipeline(function=lambda flights: flights.select("day", "delay").dropDuplicates())
    with pytest.raises(PipelineError, match=r"the flow has state \(Deduplicate\): rows that the live flow still has"):
        backfill(runs, distinct, "live", "0", "4")


def test_a_sink_that_has_not_been_written(
    runs: Runs, name: str, new_topic: Callable[..., Topic], tmp_path: Path
) -> None:
    """A flow that has never run has nothing to replace, and would write the range a second time."""
    sink = Sink(runs, name, new_topic(), tmp_path / "data")
    with pytest.raises(PipelineError, match="flow late has not run yet"):
        backfill(runs, sink.pipeline(), "live")
