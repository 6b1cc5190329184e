"""Tests `klamm pipeline stop` while the status of the flow is written."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from klamm.cli.main import FAILED, main
from klamm.pipelines.status.flow_status import FlowStatus, QueryStatus, Runner, write_status

_PATIENCE_S = 60
_FILE = """
from klamm.pipelines import Pipeline, to_topic, topic

pipeline = Pipeline("numbers")
pipeline.flow(source=topic("numbers"), sink=to_topic("even"), name="even")(lambda numbers: numbers)
"""


def write(folder: Path, state: str) -> None:
    queries = {"flow": QueryStatus(state=state)}
    runner = Runner.this_process("run")
    write_status(
        str(folder),
        FlowStatus("numbers", "even", None, state, runner, once=False, started_ms=0, updated_ms=0, queries=queries),
    )


@contextmanager
def ending(folder: Path) -> Iterator[None]:
    """Ends the flow after a request to stop. Before, its status is away for a second."""

    def work() -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not (folder / "stop").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        (folder / "status.json").unlink()
        time.sleep(1)
        write(folder, "failed")

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    yield
    thread.join()


def test_a_status_that_is_replaced_is_not_the_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Some file systems replace a file in two steps, between which there is none. The flow still runs then: the command
    waits for its end, and tells it."""
    file = tmp_path / "counting.py"
    file.write_text(_FILE, encoding="utf-8")
    folder = tmp_path / "_" / "numbers" / "even"
    write(folder, "running")

    with ending(folder):
        status = main(["pipeline", "stop", str(file), "-b", "127.0.0.1:1", "--checkpoints", str(tmp_path)])

    assert (status, capsys.readouterr().out) == (FAILED, "flow even: failed\n")
