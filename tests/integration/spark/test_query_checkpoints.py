"""The driver sends the checkpoint locations of a query to the processes of the source, over a socket."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from klamm.spark.query_checkpoints import SOCKET_VARIABLE, SourceCheckpoint, answer_processes, ask_driver


def test_who_asks_gets_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver answers with the checkpoints of the query, over a socket that no other user can open."""
    found = [SourceCheckpoint("file:/a", 0), SourceCheckpoint("/b", 2)]
    path = answer_processes({"one": found, "other": []}.__getitem__)
    assert path is not None
    monkeypatch.setenv(SOCKET_VARIABLE, path)

    assert ask_driver("one") == found
    assert ask_driver("other") == []
    assert Path(path).parent.stat().st_mode & 0o077 == 0


def test_a_driver_that_can_not_say(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """Without an answer from the driver the process continues with no checkpoints and prints nothing."""
    monkeypatch.delenv(SOCKET_VARIABLE, raising=False)
    assert ask_driver("one") == []

    nothing: dict[str, list[SourceCheckpoint]] = {}
    path = answer_processes(nothing.__getitem__)
    assert path is not None
    monkeypatch.setenv(SOCKET_VARIABLE, path)
    assert ask_driver("one") == []

    os.unlink(path)
    assert ask_driver("one") == []
    assert capfd.readouterr() == ("", "")
