"""Tests that `klamm.spark.session()` creates the session that docs/reference/spark-session.md describes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from klamm.spark.java import MINIMUM_JAVA_VERSION, find_java
from klamm.spark.session_builder import settings_for
from klamm.spark.worker_python import worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "spark-session.md").read_text(encoding="utf-8")
THREADS = 2
"""The number of threads of the shared session, from its master."""

# The script needs a separate process: the JVM of the test process already has a session that klamm created.
EXISTING = """
import os
import klamm.spark
from pyspark.sql import SparkSession

made = SparkSession.builder.master("local[2]").appName("mine").config("spark.sql.shuffle.partitions", 7).getOrCreate()
before, environment = dict(made.conf.getAll), dict(os.environ)
found = klamm.spark.session("klamm's", "local[1]", fast_checkpoints=True, **{"spark.sql.session.timeZone": "UTC+9"})
after = dict(found.conf.getAll)
print("the same", found is made and environment == dict(os.environ))
print("changed", {key: after.get(key) for key in before.keys() | after.keys() if before.get(key) != after.get(key)})
print("registered", "KLAMM_SPARK_APPLICATION_ID" in found.sparkContext.environment)
made.stop()
again = klamm.spark.session("klamm's", "local[1]")
print("made", again is not made, again.conf.get("spark.sql.shuffle.partitions"), again.conf.get("spark.app.name"))
"""


def table() -> dict[str, str]:
    """Returns the settings that the page lists, with their values."""
    section = PAGE.partition("## What it sets\n")[2].partition("\n## ")[0]
    told = {}
    for line in section.splitlines():
        if line.startswith("| `"):
            names, value, _ = (cell.strip() for cell in line.strip("|").split(" | ", 2))
            told.update({name: value.strip("`") for name in re.findall(r"`([^`]+)`", names)})
    return told


# Only a prepared machine has these; test_prepared_classes.py tests them.
PREPARED = {"spark.driver.extraJavaOptions", "spark.driver.extraClassPath"}
SPARK_SETTINGS = {name: value for name, value in table().items() if name.startswith("spark.") and name not in PREPARED}


@pytest.mark.parametrize("name", SPARK_SETTINGS)
def test_the_session_has_what_the_page_lists(spark: SparkSession, name: str) -> None:
    """The session has each Spark setting with the value that the page lists."""
    told = SPARK_SETTINGS[name]

    assert spark.conf.get(name) == {"as many as threads": str(THREADS)}.get(told, told)


def test_the_page_lists_what_the_session_sets() -> None:
    """The page lists exactly the Spark settings that the session sets."""
    assert settings_for(f"local[{THREADS}]").keys() == SPARK_SETTINGS.keys()


def test_python_and_java_are_those_of_the_page(spark: SparkSession) -> None:
    """The session sets the environment variables on the page, which choose Python and Java."""
    assert table().keys() - SPARK_SETTINGS.keys() - PREPARED == {"PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "JAVA_HOME"}
    assert os.environ["PYSPARK_PYTHON"] == worker_python()
    assert os.environ["PYSPARK_DRIVER_PYTHON"] == sys.executable
    assert os.environ["JAVA_HOME"] == str(find_java().path)
    java = spark.sparkContext._jvm.System.getProperty("java.specification.version")  # type: ignore[union-attr]
    assert int(java) >= MINIMUM_JAVA_VERSION


def test_local_checkpoints_go_through_the_file_system_of_the_page(spark: SparkSession) -> None:
    """Hadoop uses the file system that the page lists; test_local_cluster.py tests the one in klamm's own jar."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    context = jvm.org.apache.hadoop.fs.FileContext.getFileContext(
        jvm.java.net.URI("file:///"), spark.sparkContext._jsc.hadoopConfiguration()
    )

    used = context.getDefaultFileSystem().getClass().getName()

    assert used == SPARK_SETTINGS["spark.hadoop.fs.AbstractFileSystem.file.impl"]


def test_a_session_that_exists_is_returned_as_it_is() -> None:
    """An existing session keeps the settings that its creator chose, such as the number of shuffle partitions.

    Only `conf` is applied to it. A stopped session does not count as existing.
    """
    machine = {"JAVA_HOME": str(find_java().path), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}

    completed = subprocess.run(
        [sys.executable, "-c", EXISTING],
        env={**os.environ, **machine},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )

    assert completed.stdout.splitlines() == [
        "the same True",
        "changed {'spark.sql.session.timeZone': 'UTC+9'}",
        "registered True",
        "made True 1 klamm's",
    ], completed.stderr[-3000:]
