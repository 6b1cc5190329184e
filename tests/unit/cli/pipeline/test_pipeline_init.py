"""Tests the file that `klamm pipeline init` writes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from klamm.cli.main import main
from klamm.pipelines.declare.pipeline_file import load_pipeline


@pytest.mark.parametrize("name", ["orders.py", "two words.py", "7.py"])
def test_the_file_is_a_pipeline(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The written file declares a pipeline with the name of the file, and is not overwritten."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    path = str(tmp_path / name)
    assert main(["pipeline", "init", path]) == 0

    pipeline = load_pipeline(path)

    assert pipeline.name == name.removesuffix(".py").replace(" ", "-")
    assert list(pipeline.flows) == ["large"]
    assert main(["pipeline", "init", path]) == 1
    assert "exists already" in capsys.readouterr().err


def test_other_files_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A name that does not end with .py is wrong use."""
    assert main(["pipeline", "init", str(tmp_path / "orders")]) == 2
    assert "ends with .py" in capsys.readouterr().err
