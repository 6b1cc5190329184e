"""What holds of each folder of `klamm.spark.folders`, on a local path or in an object store."""

from __future__ import annotations

import pytest

from klamm.spark.folders import Folder

__all__ = ["check_files", "check_removals"]


def check_files(folder: Folder) -> None:
    """Checks that files of a new folder are written, read, replaced and listed."""
    assert folder.read("a/b/c") is None
    with pytest.raises(FileNotFoundError):
        folder.open_to_read("a/b/c")
    with folder.open_to_write("a/b/c") as file:
        file.write(b"content")
    assert folder.read("a/b/c") == b"content"
    folder.replace("a/b/c", b"other")

    assert folder.read("a/b/c") == b"other"
    assert (folder.names("a"), folder.names("x")) == (["b"], [])


def check_removals(folder: Folder) -> None:
    """Checks that files and folders can be removed, also if they are gone already."""
    for name in ("a/b", "a/c"):
        with folder.open_to_write(name) as file:
            file.write(b"content")
    for _ in range(2):
        folder.remove_file("a/b")
        assert folder.names("a") == ["c"]
    for _ in range(2):
        folder.remove_folder("a")
        assert folder.read("a/c") is None
