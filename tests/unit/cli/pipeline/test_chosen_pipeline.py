"""Tests in which sessions a pipeline writes its checkpoints through klamm's file system."""

from __future__ import annotations

import pytest

from klamm.cli.pipeline import chosen_pipeline
from klamm.cli.pipeline.chosen_pipeline import can_have_fast_checkpoints

KEY = "spark.hadoop.fs.AbstractFileSystem.file.impl"


@pytest.fixture(autouse=True)
def jar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chosen_pipeline, "is_built", lambda: True)


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2]", "local[2,4]"])
def test_on_this_machine(master: str) -> None:
    """A session whose JVM is on this machine has them."""
    assert can_have_fast_checkpoints(master, {}, {})


@pytest.mark.parametrize("master", ["local-cluster[2,1,1024]", "spark://master:7077", "yarn"])
def test_on_a_cluster(master: str) -> None:
    """Other machines may not have the jar."""
    assert not can_have_fast_checkpoints(master, {}, {})


def test_under_spark_submit() -> None:
    """The JVM of spark-submit runs already, and its class path can't be changed."""
    assert not can_have_fast_checkpoints("local[*]", {}, {"spark.master": "local[*]"})


def test_with_a_file_system_of_the_user() -> None:
    """The setting of the pipeline counts."""
    assert not can_have_fast_checkpoints("local[*]", {KEY: "org.apache.hadoop.fs.local.LocalFs"}, {})


def test_without_the_jar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the jar the run needs no other setting: it is only slower."""
    monkeypatch.setattr(chosen_pipeline, "is_built", lambda: False)
    assert not can_have_fast_checkpoints("local[*]", {}, {})
