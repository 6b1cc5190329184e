"""Tests the status file, and who counts as alive."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from klamm.pipelines.status.flow_status import FlowStatus, QueryStatus, Runner, is_alive, read_status, write_status

_NO_PROCESS = 2**30


def status(runner: Runner, state: str = "running") -> FlowStatus:
    return FlowStatus(
        pipeline="flights",
        flow="delays",
        environment="test",
        state=state,
        runner=runner,
        once=False,
        started_ms=1_000,
        updated_ms=60_000,
        queries={"flow": QueryStatus(state="running", batch_id=3, lag_records=7)},
    )


def test_a_status_is_read_again(tmp_path: Path) -> None:
    """A status that is written and read is the same; a flow that never ran has none."""
    folder = str(tmp_path / "flow")
    assert read_status(folder) is None

    write_status(folder, status(Runner.this_process("r")))

    assert read_status(folder) == status(Runner.this_process("r"))
    assert [path.name for path in (tmp_path / "flow").iterdir()] == ["status.json"]


def test_a_status_of_another_version(tmp_path: Path) -> None:
    """A status of a newer klamm is read without its new fields, one of an older klamm with defaults: an upgrade neither
    hides that a flow runs nor forgets its counts."""
    mine = status(Runner.this_process("r"))
    write_status(str(tmp_path), mine)
    file = tmp_path / "status.json"
    content = json.loads(file.read_text())
    content["colour"] = content["runner"]["colour"] = content["queries"]["flow"]["colour"] = "red"
    del content["error"], content["queries"]["flow"]["watermark"]
    file.write_text(json.dumps(content))

    assert read_status(str(tmp_path)) == mine


@pytest.mark.parametrize("content", ["", "[]", '{"pipeline": "p"}', '{"runner": {"word": 1}, "queries": {}}'])
def test_a_damaged_status(tmp_path: Path, content: str) -> None:
    """A file in another form is an error, not a status."""
    (tmp_path / "status.json").write_text(content)

    with pytest.raises(ValueError, match=r"status.json is damaged"):
        read_status(str(tmp_path))


def test_a_process_on_this_machine() -> None:
    """On this machine the process is looked up, however old the file is; a later process with its id is another."""
    mine = Runner.this_process("r")

    assert is_alive(status(mine), now_ms=10**12)
    assert not is_alive(status(replace(mine, process_start="0")), now_ms=60_000)
    assert not is_alive(status(mine, state="stopped"), now_ms=60_000)
    assert not is_alive(status(replace(mine, pid=_NO_PROCESS)), now_ms=60_000)


def test_a_process_on_another_machine() -> None:
    """A process on another machine counts as alive for half a minute after it wrote last."""
    other = Runner("r", "another-machine", os.getpid(), None)

    assert is_alive(status(other), now_ms=80_000)
    assert not is_alive(status(other), now_ms=90_000)


def test_a_process_in_another_container() -> None:
    """Containers in the network of their machine have its host name, and process ids of their own: a process of another
    container can't be looked up. It counts as one of another machine, and not as one that has ended."""
    mine = Runner.this_process("r")
    if mine.pid_namespace is None:
        pytest.skip("this system does not tell namespaces")
    other = replace(mine, pid=_NO_PROCESS, pid_namespace="pid:[1]")

    assert is_alive(status(other), now_ms=80_000)
    assert not is_alive(status(other), now_ms=90_000)
    assert not is_alive(status(replace(other, pid_namespace=None)), now_ms=80_000)  # of an older version
