"""Tests that sessions use what `klamm pipeline prepare` has recorded, with real JVMs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from klamm import Broker
from klamm.spark.class_archive import find_archive
from klamm.spark.java import find_java

pytestmark = pytest.mark.timeout(300)

# The JVM's memory map names the archive only if the JVM uses it.
_SESSION = """
import json, sys
from pathlib import Path
import klamm.spark

given = json.loads(sys.argv[1])
spark = klamm.spark.session("prepared", "local[1]", **given)
jvm = spark.sparkContext._jvm
print("mapped", sys.argv[2] in Path(f"/proc/{jvm.ProcessHandle.current().pid()}/maps").read_text())
print("rows", spark.range(3).count())
"""

_PIPELINE = """
from klamm.pipelines import Pipeline, json, to_topic, topic

pipeline = Pipeline("readings")


@pipeline.flow(source=topic("readings", decode=json("n int")), sink=to_topic("copies"))
def copied(readings):
    return readings
"""
_ADVICE = "klamm pipeline prepare"


def _session(given: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    archive = find_archive(find_java())
    assert archive is not None, "the fixtures of these tests have prepared it"
    return subprocess.run(
        [sys.executable, "-c", _SESSION, given, str(archive)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )


@pytest.mark.parametrize(
    ("given", "has_configuration", "is_used"),
    [("{}", False, True), ('{"fast_checkpoints": true}', False, True), ("{}", True, False)],
    ids=["plain", "fast checkpoints", "another class path"],
)
def test_a_new_session_uses_the_archive_if_it_fits(
    tmp_path: Path, given: str, has_configuration: bool, is_used: bool
) -> None:
    """The JVM maps the archive. With another class path, it starts without the archive, and without a warning."""
    # A folder of Spark's configuration is part of the class path.
    (tmp_path / "spark-defaults.conf").write_text("spark.ui.enabled false\n", encoding="utf-8")
    completed = _session(given, {"SPARK_CONF_DIR": str(tmp_path)} if has_configuration else {})
    assert completed.stdout.splitlines() == [f"mapped {is_used}", "rows 3"], completed.stderr[-3000:]
    assert "[cds" not in completed.stderr


def test_a_second_preparation_does_nothing() -> None:
    """The command says that the archive is there, and starts no JVM."""
    completed = subprocess.run(
        [sys.executable, "-m", "klamm.cli", "pipeline", "prepare"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "is there already" in completed.stdout


@pytest.mark.parametrize("is_prepared", [True, False])
def test_a_command_says_that_the_archive_is_missing(tmp_path: Path, is_prepared: bool) -> None:
    """On a machine that was not prepared for its Java, a command that starts Spark names what makes the start faster.

    To the archive, another path to the same Java is another Java.
    """
    java = tmp_path / "java"
    java.symlink_to(find_java().path)
    (tmp_path / "readings.py").write_text(_PIPELINE, encoding="utf-8")
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with Broker() as broker:
        completed = subprocess.run(
            [sys.executable, "-m", "klamm.cli", "pipeline", "check", "readings.py", "-b", broker.bootstrap_servers],
            cwd=tmp_path,
            env=environment if is_prepared else {**environment, "JAVA_HOME": str(java)},
            capture_output=True,
            text=True,
            timeout=250,
            check=False,
        )
    assert completed.stdout.startswith("flow "), completed.stderr[-3000:]
    assert (_ADVICE in completed.stderr) is not is_prepared
