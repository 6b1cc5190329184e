"""Tests how the file of a pipeline is loaded, and what is said of a file that is none."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from klamm.pipelines.declare.pipeline_file import load_pipeline
from klamm.pipelines.errors import PipelineError

FLOW = """
from klamm.pipelines import Pipeline, to_topic, topic
pipeline = Pipeline("flights")
@pipeline.flow(source=topic("flights"), sink=to_topic("delays"))
def delays(flights):
    return flights
"""


@pytest.fixture(autouse=True)
def _same_paths(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    known = set(sys.modules)
    yield
    for name in set(sys.modules) - known:
        if name.startswith("klamm_pipeline_file_") or name == "helper_of_a_pipeline":
            del sys.modules[name]


def write(folder: Path, text: str) -> str:
    path = folder / "flights.py"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_the_pipeline_of_a_file(tmp_path: Path) -> None:
    """A file with one pipeline is loaded, and it can import the modules next to it, also in Spark's workers."""
    (tmp_path / "helper_of_a_pipeline.py").write_text("LIMIT = 15\n")
    pipeline = load_pipeline(write(tmp_path, f"from helper_of_a_pipeline import LIMIT\n{FLOW}"))

    assert (pipeline.name, list(pipeline.flows)) == ("flights", ["delays"])
    assert os.environ["PYTHONPATH"].split(os.pathsep)[0] == str(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "declares no pipeline"),
        (FLOW + "second = Pipeline('weather')\n", r"declares 2 pipelines \(flights, weather\)"),
        ("from klamm.pipelines import Pipeline\nmine = Pipeline('flights')\n", r"has no flow; .* @mine\.flow"),
        (FLOW + "\nnonsense()\n", "line 8: NameError: name 'nonsense' is not defined"),
        ("def f(:\n", "line 1: SyntaxError"),
        (FLOW + "import sys\nsys.exit()\n", r"line 8: the file ends Python \(SystemExit\(\)\)"),
        (FLOW + "pipeline.flow(source=topic(''), sink=1)\n", r"line 7: topic\(\) takes a name"),
    ],
)
def test_what_is_said_of_other_files(tmp_path: Path, text: str, message: str) -> None:
    """An error names the file, and the line that raised it."""
    with pytest.raises(PipelineError, match=message) as error:
        load_pipeline(write(tmp_path, text))

    assert str(tmp_path / "flights.py") in str(error.value)


def test_a_name_of_pythons_own(tmp_path: Path) -> None:
    """A file that would hide a module of Python's library is refused, since its folder comes first on the path."""
    (tmp_path / "calendar.py").write_text(FLOW, encoding="utf-8")

    with pytest.raises(PipelineError, match="would hide Python's own module calendar"):
        load_pipeline(str(tmp_path / "calendar.py"))


def test_a_missing_file(tmp_path: Path) -> None:
    """A missing file is an error that names the command which writes one."""
    with pytest.raises(PipelineError, match="klamm pipeline init"):
        load_pipeline(str(tmp_path / "none.py"))
