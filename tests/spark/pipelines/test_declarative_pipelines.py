"""Tests the page on Spark's Declarative Pipelines: its files, and two runs of `spark-pipelines`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.find_spark_home import _find_spark_home as find_spark_home
from tests.support.alone import alone
from tests.support.page_code import page_code
from tests.support.spark_topics import Topic

from klamm.spark.java import find_java

_ROOT = Path(__file__).resolve().parents[3]
_PAGE = _ROOT / "docs" / "how-to" / "declarative-pipelines.md"
_DATA = "/var/lib/airports"
_PATIENCE_S = 400


def files_of_page(folder: Path, names: dict[str, str]) -> None:
    """Writes the page's three files into a folder, with its data below the folder."""
    page = _PAGE.read_text(encoding="utf-8").replace(_DATA, str(folder / "data"))
    (code,) = page_code("how-to/declarative-pipelines.md", names)
    texts = {"transformations/departures.py": code}
    for name, language in (("spark-pipeline.yml", "yaml"), ("conf/spark-defaults.conf", "properties")):
        found = re.search(rf"```{language}\n(.*?\n)```", page, re.DOTALL)
        assert found is not None
        texts[name] = found.group(1)
    for name, text in texts.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "data").mkdir()


def run(folder: Path) -> None:
    environment = {
        "SPARK_CONF_DIR": str(folder / "conf"),
        "SPARK_HOME": find_spark_home(),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "JAVA_HOME": str(find_java().path),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(_ROOT / "src"), os.environ.get("PYTHONPATH")])),
    }
    with alone("spark-connect"):  # its port is fixed
        done = subprocess.run(
            [str(Path(find_spark_home(), "bin", "spark-pipelines")), "run"],
            cwd=folder,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.timeout(3 * _PATIENCE_S)
def test_a_table_and_a_topic(new_topic: Callable[..., Topic], name: str, tmp_path: Path) -> None:
    """A run reads what there is, and the next one continues: each late departure is in the topic once, also if Spark
    repeats a micro-batch, and the group is at the end."""
    departures, delays = new_topic(), new_topic()
    files_of_page(tmp_path, {"localhost:9092": departures.bootstrap_servers, "airports": name})
    file = tmp_path / "transformations" / "departures.py"
    code = file.read_text(encoding="utf-8")
    for option, topic in (('"subscribe": "departures"', departures), ('"topic": "delays"', delays)):
        assert option in code  # the table and the sink of the page have the same names as the topics, and keep them
        code = code.replace(option, f'{option.partition(":")[0]}: "{topic.name}"')
    file.write_text(code, encoding="utf-8")

    for delay in (20, 30):
        departures.produce(
            [json.dumps({"airport": "JFK", "time": "2026-01-01T10:00:00Z", "delay": each}) for each in (5, delay)]
        )
        run(tmp_path)
    (commits,) = (tmp_path / "data" / "storage").glob("**/late_departures/**/commits")
    newest = max(commits.glob("[0-9]*"), key=lambda file: int(file.name))
    newest.unlink()  # the micro-batch counts as unfinished, and Spark repeats it
    run(tmp_path)
    assert newest.exists()

    late = [json.loads(record.value or b"")["delay"] for record in delays.records(1)[0]]
    assert late == [20, 30]
    assert departures.committed(name, 1) == departures.ends(1) == [4]
