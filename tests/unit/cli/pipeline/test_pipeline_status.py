"""Tests `klamm pipeline status` and `stop` for flows that don't run, are gone, or have a file that can't be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from klamm.cli.main import FAILED, main
from klamm.pipelines.status.flow_status import FlowStatus, QueryStatus, Runner, write_status

_NO_PROCESS = 2**30
_FILE = """
from klamm.pipelines import Pipeline, to_topic, topic

pipeline = Pipeline("numbers")
for name in ("even", "odd"):
    pipeline.flow(source=topic("numbers"), sink=to_topic(name), name=name)(lambda numbers: numbers)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Returns the file of a pipeline."""
    file = tmp_path / "counting.py"
    file.write_text(_FILE, encoding="utf-8")
    return file


@pytest.fixture
def words(file: Path, tmp_path: Path) -> list[str]:
    """Returns the words of a command after its verb."""
    return [str(file), "-b", "127.0.0.1:1", "--checkpoints", str(tmp_path)]


def folder(tmp_path: Path, flow: str) -> Path:
    return tmp_path / "_" / "numbers" / flow


def write(tmp_path: Path, flow: str, runner: Runner, state: str = "running") -> None:
    queries = {"flow": QueryStatus(state=state, batch_id=3)}
    status = FlowStatus("numbers", flow, None, state, runner, once=False, started_ms=0, updated_ms=0, queries=queries)
    write_status(str(folder(tmp_path, flow)), status)


def test_a_file_that_can_not_be_read_hides_no_other_flow(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A damaged status is shown as unreadable, with the reason; the other flow is shown as it is."""
    write(tmp_path, "odd", Runner.this_process("r"))
    folder(tmp_path, "even").mkdir()
    (folder(tmp_path, "even") / "status.json").touch()

    status = main(["pipeline", "status", *words, "-o", "json"])

    out, err = capsys.readouterr()
    rows: list[dict[str, Any]] = json.loads(out)
    assert status == FAILED
    assert [(row["flow"], row["state"]) for row in rows] == [("even", "unreadable"), ("odd", "running")]
    assert "the status of flow even can't be read: " in err


def test_a_process_that_is_gone(tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A flow whose process has ended without a word is gone, and can't be stopped."""
    write(tmp_path, "even", Runner("r", Runner.this_process("r").host, _NO_PROCESS, None))

    assert main(["pipeline", "status", *words]) == FAILED
    out, _ = capsys.readouterr()
    assert "gone" in out
    assert f"process {_NO_PROCESS} on" in out
    assert "never run" in out
    assert main(["pipeline", "stop", *words]) == FAILED
    assert "no flow of the pipeline numbers runs" in capsys.readouterr().err


def test_a_request_to_stop_that_can_not_be_written(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The error is a sentence that names the flow."""
    write(tmp_path, "odd", Runner.this_process("r"))
    (folder(tmp_path, "odd") / "stop").mkdir()
    (folder(tmp_path, "odd") / "stop" / "file").touch()

    assert main(["pipeline", "stop", *words]) == FAILED

    assert "the request to stop flow odd can't be written: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (("-b", "127.0.0.1:1"), "running"),
        (("--context", "test"), "never run"),
        ((), "never run"),
        (("-b", "127.0.0.1:1", "--env", "test"), "never run"),
    ],
)
def test_the_options_of_the_cluster_choose_the_environment(
    file: Path, words: tuple[str, ...], state: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run with an address alone has no environment, and the same address finds its flows although the current context
    has one. Properties of the context do not matter, and there is no option for them: no cluster is asked."""
    tmp_path = file.parent
    for name in ("KLAMM_CONTEXT", "KLAMM_BOOTSTRAP_SERVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KLAMM_CONFIG", str(tmp_path / "contexts.toml"))
    secure = ("-X", "security.protocol=SSL")
    assert main(["context", "add", "test", "-b", "127.0.0.1:1", "--environment", "test", *secure]) == 0
    assert main(["context", "use", "test"]) == 0
    write(tmp_path, "odd", Runner.this_process("r"))
    capsys.readouterr()
    options = (str(file), "--checkpoints", str(tmp_path), "--flow", "odd", *words)

    assert main(["pipeline", "status", *options, "-o", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["state"] == state
    with pytest.raises(SystemExit):
        main(["pipeline", "status", *options, *secure])
    assert "unrecognized arguments: -X" in capsys.readouterr().err
    if state == "never run":
        assert main(["pipeline", "stop", *options]) == FAILED
        assert "no flow of the pipeline numbers runs" in capsys.readouterr().err
