"""A data source that reads a file of lines in each micro-batch, and reaches a point before and after Spark plans it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType
from tests.support.stopping_sink import POINTS_OPTION, Points

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["StoppingFiles", "read_files"]

_FILES = "files"


def read_files(spark: SparkSession, folder: Path, points: Path | None) -> DataFrame:
    """Returns the lines of the files in a folder, a file in each micro-batch; `points` is the folder of the points, or
    None for Spark's own source without points."""
    if points is None:
        return spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(folder))
    spark.dataSource.register(StoppingFiles)
    return spark.readStream.format("stopping-files").options(folder=str(folder), **{POINTS_OPTION: str(points)}).load()


class StoppingFiles(DataSource):
    """`format("stopping-files")` for files with the names `0.txt`, `1.txt`, …"""

    @classmethod
    def name(cls) -> str:
        return "stopping-files"

    def schema(self) -> str:
        return "value string"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _Reader(Path(self.options["folder"]), Points(Path(self.options[POINTS_OPTION])))


class _Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """An offset is the number of files that were read, so it is the id of the next micro-batch, too."""

    def __init__(self, folder: Path, points: Points) -> None:
        self._folder, self._points = folder, points
        self._end = 0

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxFiles(1)

    def prepareForTriggerAvailableNow(self) -> None:
        self._end = len(list(self._folder.iterdir()))

    def initialOffset(self) -> dict[str, int]:
        return {_FILES: 0}

    def latestOffset(self, start: Mapping[str, int], limit: ReadLimit) -> dict[str, int]:
        """Spark calls this when its commit log has the previous micro-batch."""
        self._points.reach("next begun", start[_FILES])
        return {_FILES: min(start[_FILES] + 1, self._end)}

    def partitions(self, start: Mapping[str, int], end: Mapping[str, int]) -> list[InputPartition]:
        """Spark calls this when its offset log has the micro-batch."""
        self._points.reach("planned", start[_FILES])
        return [InputPartition(number) for number in range(start[_FILES], end[_FILES])]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        for line in (self._folder / f"{partition.value}.txt").read_text().splitlines():
            yield (line,)
