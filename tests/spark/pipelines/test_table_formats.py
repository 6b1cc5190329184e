"""Tests the page on table formats: after a micro-batch whose commit Spark has lost, each record is in the table once.

The jar of Delta Lake fits one release of Spark; with another PySpark its test is skipped. Iceberg has no jar that works
with a release that klamm supports.
"""

from __future__ import annotations

import importlib
import json as standard_json
import os
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow.dataset as ds
import pyspark
import pytest
from tests.spark.pipelines.conftest import Runs
from tests.support.lost_commits import lose_newest_commit
from tests.support.page_code import page_code, write_pipeline
from tests.support.patience import Limit
from tests.support.short_lived_spark import SHORT_LIVED_JVM
from tests.support.spark_driver import SparkDriver
from tests.support.spark_topics import Topic
from tests.support.table_driver import ROWS
from tests.support.toolchains import toolchain_is_missing

from klamm.pipelines.declare.pipeline_file import load_pipeline

_POM: Final = Path(__file__).parents[1] / "table_formats" / "pom.xml"
_RELEASE: Final = ".".join(pyspark.__version__.split(".")[:2])
_PAGE: Final = "how-to/table-formats.md"
_MAVEN_SECONDS: Final = 300


def departures(numbers: range) -> list[str]:
    return [standard_json.dumps({"airport": "JFK", "delay": number}) for number in numbers]


def block(flow: str, names: dict[str, str]) -> list[str]:
    """Returns the page's first block, with the imports and the pipeline, and the block of the flow."""
    blocks = page_code(_PAGE, names)
    (found,) = (each for each in blocks if f"def {flow}(" in each and (_JARS in each) == (flow in _WITH_JARS))
    return [found] if _JARS in found else [blocks[0], found]


_JARS: Final = "spark.jars.packages"
_WITH_JARS: Final = ("departures_in_delta_with_jar",)


def parquet(folder: Path) -> list[int]:
    # As Spark reads the table: only the files that the sink's log names.
    names: set[str] = set()
    for log in (folder / "departures" / "_spark_metadata").iterdir():
        if not log.name.startswith("."):
            names.update(re.findall(r"part-[^\"]+?\.parquet", log.read_text()))
    files = [str(file) for file in (folder / "departures").rglob("*.parquet") if file.name in names]
    return [int(row["delay"]) for row in ds.dataset(files).to_table().to_pylist()]


def deltalake(folder: Path) -> list[int]:
    table = importlib.import_module("deltalake").DeltaTable(str(folder / "departures-delta"))
    return [int(row["delay"]) for row in table.to_pyarrow_table().to_pylist()]


def pyiceberg(folder: Path) -> list[int]:
    catalog = importlib.import_module("pyiceberg.catalog")
    lake = catalog.load_catalog("lake", type="sql", uri=f"sqlite:///{folder}/lake.db", warehouse=str(folder / "lake"))
    return [int(row["delay"]) for row in lake.load_table("airline.departures").scan().to_arrow().to_pylist()]


_WITHOUT_JARS: Final[dict[str, tuple[str, Callable[[Path], list[int]]]]] = {
    "departures_in_parquet": ("pyarrow", parquet),
    "departures_in_delta": ("deltalake", deltalake),
    "departures_in_iceberg": ("pyiceberg", pyiceberg),
}


@pytest.mark.parametrize("flow", _WITHOUT_JARS)
@pytest.mark.filterwarnings("ignore")  # of the packages, when they are imported
def test_tables_without_jars(
    runs: Runs,
    name: str,
    new_topic: Callable[..., Topic],
    tmp_path: Path,
    flow: str,
) -> None:
    """The functions of the page find a micro-batch that they have written already."""
    package, read = _WITHOUT_JARS[flow]
    importlib.import_module(package)
    topic, tables = new_topic(), tmp_path / "tables"
    tables.mkdir()
    code = [each.replace("tables/", f"{tables}/") for each in block(flow, {"departures": topic.name, "flights": name})]
    pipeline = load_pipeline(str(write_pipeline(tmp_path / "flights.py", *code)))
    for other in [each for each in pipeline.flows if each != flow]:
        del pipeline.flows[other]
    topic.produce(departures(range(10)))
    assert runs.once(pipeline)
    topic.produce(departures(range(10, 15)))
    assert runs.once(pipeline)

    lose_newest_commit(Path(runs.place(pipeline).checkpoint(flow)))
    topic.produce(departures(range(15, 20)))
    assert runs.once(pipeline)

    assert sorted(read(tables)) == list(range(20))


def jars_of(table_format: str, release: str, output: Path) -> str:
    """Returns the jars, separated by commas; skips the test if Maven has none for this release of Spark."""
    if shutil.which("mvn") is None:
        toolchain_is_missing("java", "no mvn on PATH")
    for offline in (["-o"], []):
        command = ["mvn", "-q", "-B", "-f", str(_POM), "-P", table_format, f"-Dspark.release={release}", *offline]
        command += ["dependency:build-classpath", f"-Dmdep.outputFile={output}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_MAVEN_SECONDS)
        if done.returncode == 0:
            return output.read_text(encoding="utf-8").strip().replace(os.pathsep, ",")
    pytest.skip(f"Maven has no {table_format} for PySpark {release}: {done.stdout[-200:]}")


_FORMATS: Final[dict[str, tuple[tuple[str, ...], str, str]]] = {
    "delta": (("4.2",), "departures_in_delta_with_jar", "SELECT delay FROM delta.`{folder}/departures`"),
}


# Delta Lake has 50 tasks for each micro-batch otherwise.
_QUICK: Final = {**SHORT_LIVED_JVM, "spark.databricks.delta.snapshotPartitions": "1"}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("table_format", _FORMATS)
def test_tables_with_jars(new_topic: Callable[..., Topic], tmp_path: Path, table_format: str) -> None:
    """After kill -9 of a run and the loss of Spark's newest commit, the next run continues without a duplicate."""
    releases, flow, read = _FORMATS[table_format]
    if _RELEASE not in releases:
        pytest.skip(f"{table_format} has no jar for PySpark {_RELEASE}, only for {' and '.join(releases)}")
    jars = jars_of(table_format, _RELEASE, tmp_path / "jars.txt")
    topic, tables = new_topic(), tmp_path / "tables"
    (code,) = block(flow, {"departures": topic.name})
    conf = standard_json.dumps({"spark.jars": jars, **_QUICK})
    code = re.sub(rf'"{_JARS}": "[^"]+"', conf[1:-1], code).replace("tables/", f"{tables}/")
    code = code.replace('delay int")', 'delay int"), max_records_per_batch=20')
    file = write_pipeline(tmp_path / "flights.py", code)
    given: dict[str, Any] = {"bootstrap_servers": topic.bootstrap_servers, "checkpoints": str(tmp_path / "checkpoints")}
    given |= {"file": str(file), "read": read.format(folder=tables)}
    checkpoint = tmp_path / "checkpoints" / "_" / "flights" / flow / "checkpoint"
    topic.produce(departures(range(60)))

    with SparkDriver(tmp_path / "first.log", "tests.support.table_driver", **given, once=False) as driver:
        limit = Limit(120)
        while not (checkpoint / "commits" / "1").exists():
            assert driver.is_running, driver.text()[-3000:]
            assert not limit.is_over, "the run makes no progress"
            time.sleep(0.1)
    lose_newest_commit(checkpoint)
    with SparkDriver(tmp_path / "second.log", "tests.support.table_driver", **given, once=True) as driver:
        assert driver.wait(300) == 0, driver.text()[-3000:]
        (rows,) = (line.removeprefix(ROWS) for line in driver.text().splitlines() if line.startswith(ROWS))

    assert Counter(row["delay"] for row in standard_json.loads(rows)) == Counter(range(60))
