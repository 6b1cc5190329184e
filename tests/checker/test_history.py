"""Tests that several processes can write one history, and that its events are read in time order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.checker.history import (
    Assign,
    Commit,
    Committed,
    End,
    Ended,
    Event,
    Fault,
    Fetch,
    Fetched,
    Origins,
    Poll,
    PowerCut,
    Problem,
    Recorder,
    Revoke,
    RunEnded,
    Send,
    Sent,
    read_history,
)

_ROOT = Path(__file__).parents[2]
EVENTS: list[Event] = [
    Send("p", 0, (("r-0", 1), ("r-1", 2)), 5, (7, 8)),
    Sent("p", 0, ("ok", "unknown"), (3, None), ("timed out",)),
    End("p", 5, True),
    Ended("p", 5, "failed", "fenced"),
    Assign("c", (("r-0", 4), ("r-1", None)), "group"),
    Poll("c", "read_committed", (("r-0", (3, 4), (1, 9)),), "group"),
    Revoke("c", ("r-0",)),
    Commit("c", 1, "group", (("r-0", 5),), None),
    Committed("c", 1, "unknown", "timed out"),
    Fetch("c", 2, "group"),
    Fetched("c", 2, (("r-0", 5), ("r-1", None))),
    Origins("c", "r-0", ((3, 4, 1000, 2, 17), (5, 5, 1000, 2, -1))),
    Fault("nemesis", "kill"),
    PowerCut("nemesis", (("r-0", 4), ("r-1", 0))),
    Problem("c", "crashed"),
    RunEnded("run", "interrupted"),
]

_WRITER = """
import sys
from pathlib import Path
from tests.checker.history import Fault, Recorder
recorder = Recorder(Path(sys.argv[1]))
for number in range(500):
    recorder.record(Fault(sys.argv[2], str(number)))
"""


def test_events_are_read_as_they_were_written(tmp_path: Path) -> None:
    """Events of every kind are read in order and with all their fields."""
    path = tmp_path / "history.jsonl"
    recorder = Recorder(path)
    for event in EVENTS:
        recorder.record(event)
    recorder.close()
    entries = read_history(path)
    assert [entry.event for entry in entries] == EVENTS
    assert [entry.index for entry in entries] == list(range(len(EVENTS)))


def test_a_line_that_was_cut_off_costs_no_other(tmp_path: Path) -> None:
    """A line that a killed process left unfinished does not affect the lines of other writers."""
    path = tmp_path / "history.jsonl"
    first, second = Recorder(path), Recorder(path)
    first.record(Fault("a", "1"))
    with path.open("ab") as file:
        file.write(b'\n{"time_ns":17,"event":"Fau')
    second.record(Fault("b", "2"))
    first.close()
    second.close()
    assert [entry.event for entry in read_history(path)] == [Fault("a", "1"), Fault("b", "2")]


def test_several_processes_write_one_history(tmp_path: Path) -> None:
    """When several processes write one history, no event is lost, and the events of each process keep their order."""
    path = tmp_path / "history.jsonl"
    names = ("a", "b", "c")
    writers = [subprocess.Popen([sys.executable, "-c", _WRITER, str(path), name], cwd=_ROOT) for name in names]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    entries = read_history(path)
    for name in names:
        events = [entry.event for entry in entries if entry.event.process == name]
        assert events == [Fault(name, str(number)) for number in range(500)]
    assert [entry.time_ms for entry in entries] == sorted(entry.time_ms for entry in entries)
