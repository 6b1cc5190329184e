"""Tests that the demo removes its own earlier output, and no other file."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from examples.flights import __main__ as demo
from examples.flights.output_folder import MARKER, WRITTEN, prepare_output

from klamm import KlammError


def write_output(folder: Path) -> None:
    """Writes what a demo leaves: folders with files, and a file."""
    for name in WRITTEN:
        (folder / name).mkdir()
        (folder / name / "file").touch()


@pytest.mark.parametrize("name", ["new", "new/below", ""])
def test_a_new_or_an_empty_folder(tmp_path: Path, name: str) -> None:
    """The folder is created if it is missing; a second demo may have it again."""
    folder = tmp_path / name
    prepare_output(folder)
    write_output(folder)

    prepare_output(folder)

    assert [entry.name for entry in folder.iterdir()] == [MARKER]


def test_a_file_of_the_user_next_to_an_earlier_output(tmp_path: Path) -> None:
    """Nothing is removed, and the error names the file."""
    prepare_output(tmp_path)
    write_output(tmp_path)
    (tmp_path / "notes.txt").touch()

    with pytest.raises(KlammError, match=r"such as notes\.txt; nothing was removed\. Name an empty or a new folder"):
        prepare_output(tmp_path)

    assert {entry.name for entry in tmp_path.iterdir()} == {MARKER, *WRITTEN, "notes.txt"}
    assert (tmp_path / "broker" / "file").exists()


def test_a_link_is_removed_and_not_followed(tmp_path: Path) -> None:
    """A folder of the user to which a link in an earlier output leads stays as it is."""
    output, own = tmp_path / "output", tmp_path / "own"
    own.mkdir()
    (own / "file").touch()
    prepare_output(output)
    (output / "broker").symlink_to(own)

    prepare_output(output)

    assert (own / "file").exists()
    assert not (output / "broker").is_symlink()


@pytest.mark.parametrize("name", ["broker", "photos"])
def test_a_folder_of_the_user(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The demo refuses a folder that it did not make, also if a name in it is one of the demo's, and leaves it as it
    is."""
    (tmp_path / name).mkdir()
    (tmp_path / name / "file").touch()
    monkeypatch.setattr(sys, "argv", ["demo", "--output", str(tmp_path)])
    monkeypatch.setattr("signal.signal", lambda *given: None)

    assert demo.main() == 1

    assert f"{tmp_path} has files that the demo did not write, such as {name}" in capsys.readouterr().err
    assert [entry.name for entry in tmp_path.iterdir()] == [name]
    assert (tmp_path / name / "file").exists()


def test_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    """A file is no folder for the output, and stays as it is."""
    (tmp_path / "file").write_text("mine")

    with pytest.raises(KlammError, match="can't be used for the demo's output"):
        prepare_output(tmp_path / "file")

    assert (tmp_path / "file").read_text() == "mine"
