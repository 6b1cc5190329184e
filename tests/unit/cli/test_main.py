"""`klamm.cli.main`."""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.cli.main import COMMANDS, INTERRUPTED, main


def test_a_command_is_interrupted_while_it_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C while the module of a command is imported ends with the status of an interrupted command, and prints no
    traceback."""
    (tmp_path / "command_that_imports_slowly.py").write_text("raise KeyboardInterrupt\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(COMMANDS, "slow", ("command_that_imports_slowly", "imports slowly"))
    assert main(["slow"]) == INTERRUPTED
    assert capsys.readouterr() == ("", "")
