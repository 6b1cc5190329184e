"""The Python that Spark starts for its workers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from klamm.spark.worker_python import worker_python

pyspark = pytest.importorskip("pyspark")

_HOME = Path(pyspark.__file__).parent
_LIB = _HOME / "python" / "lib"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "it's a cache"))
    monkeypatch.delenv("SPARK_HOME", raising=False)


def _run(python: str, code: str, path: str) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(
        [python, "-c", code, "an argument", "another"], env=environment, capture_output=True, text=True, check=True
    ).stdout.splitlines()


def test_it_is_this_python_without_the_archives() -> None:
    """The worker's Python is this Python without Spark's archives in PYTHONPATH. The other path entries, the arguments
    and the exit status are kept."""
    python = worker_python()
    assert python != sys.executable
    (py4j,) = _LIB.glob("py4j-*-src.zip")
    path = os.pathsep.join([str(_LIB / "pyspark.zip"), str(py4j), "/a jar.jar", "/of the user", "/pyspark.zip"])
    code = "import os, sys, pyspark, py4j; print(sys.prefix); print(sys.argv[1:]); print(os.environ['PYTHONPATH']);"
    code += "print(pyspark.__file__); print(py4j.__file__)"
    prefix, arguments, kept, of_pyspark, of_py4j = _run(python, code, path)
    assert prefix == sys.prefix
    assert arguments == "['an argument', 'another']"
    assert kept == "/a jar.jar:/of the user:/pyspark.zip"
    assert Path(of_pyspark).parent == _HOME
    assert ".zip" not in of_py4j
    assert subprocess.run([python, "-c", "raise SystemExit(7)"], check=False).returncode == 7


def test_no_path_at_all() -> None:
    """The wrapper works without PYTHONPATH, as when a user starts it."""
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    command = [worker_python(), "-c", "import os; print(repr(os.environ['PYTHONPATH']))"]
    assert subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout == "''\n"


def test_it_is_written_once() -> None:
    """A second call does not write the wrapper again."""
    before = Path(worker_python()).stat().st_mtime_ns
    assert Path(worker_python()).stat().st_mtime_ns == before


def test_another_spark_brings_its_own_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """With another SPARK_HOME, Spark's archives stay on the path."""
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert worker_python() == sys.executable
    monkeypatch.setenv("SPARK_HOME", str(_HOME))
    assert worker_python() != sys.executable


def test_pyspark_from_elsewhere_keeps_the_archives(tmp_path: Path) -> None:
    """If pyspark comes from another folder, the archives stay on the path, because the workers may lack that folder."""
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text("")
    code = "import sys; from klamm.spark.worker_python import worker_python; print(worker_python() == sys.executable)"
    assert _run(sys.executable, code, str(tmp_path)) == ["True"]
