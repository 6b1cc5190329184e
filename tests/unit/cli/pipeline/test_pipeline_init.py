"""Tests the file that `klamm pipeline init` writes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from klamm.cli.main import main
from klamm.pipelines.declare.pipeline_file import load_pipeline


@pytest.mark.parametrize("name", ["orders.py", "large_orders.py", "match.py"])
def test_the_file_is_a_pipeline(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The written file declares a pipeline with the name of the file, and is not overwritten."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    path = str(tmp_path / name)
    assert main(["pipeline", "init", path]) == 0

    pipeline = load_pipeline(path)

    assert pipeline.name == name.removesuffix(".py")
    assert list(pipeline.flows) == ["large"]
    assert main(["pipeline", "init", path]) == 1
    assert "exists already" in capsys.readouterr().err


def test_a_folder_with_a_space(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Commands that are shown can be pasted into a shell."""
    (tmp_path / "my pipelines").mkdir()
    path = tmp_path / "my pipelines" / "orders.py"
    assert main(["pipeline", "init", str(path)]) == 0

    assert f"`klamm pipeline check '{path}'`" in capsys.readouterr().out
    assert f"    klamm pipeline run '{path}'\n" in path.read_text()


@pytest.mark.parametrize(
    ("name", "reason", "other"),
    [
        ("class.py", "class is a word of Python's language", "class_pipeline.py"),
        ("queue.py", "queue is a module of Python's", "queue_pipeline.py"),
        ("two words.py", "'two words' is no name of a module", "two_words.py"),
        ("late-flights.py", "'late-flights' is no name of a module", "late_flights.py"),
        ("7.py", "'7' is no name of a module", "pipeline_7.py"),
    ],
)
def test_names_that_can_not_be_imported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, reason: str, other: str
) -> None:
    """A file that tests could not import, or that would hide a module of Python's, is not written. The message names a
    file that can be written."""
    assert main(["pipeline", "init", str(tmp_path / name)]) == 2

    text = capsys.readouterr().err
    assert f"{reason}, so tests could not import the file" in text
    assert f"such as {tmp_path / other}" in text
    assert list(tmp_path.iterdir()) == []
    assert main(["pipeline", "init", str(tmp_path / other)]) == 0


def test_other_files_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A name that does not end with .py is wrong use."""
    assert main(["pipeline", "init", str(tmp_path / "orders")]) == 2
    assert "ends with .py" in capsys.readouterr().err
