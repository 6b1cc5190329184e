"""Tests that local folders and folders of pyarrow.fs behave in the same way."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.support.folder_checks import check_files, check_removals

from klamm.spark.folders import (
    Folder,
    _RemoteFolder,
    absolute_location,
    folder_and_name,
    folder_at,
    local_path_of_uri,
    without_credentials,
)
from klamm.spark.sink.checkpoint_files import read_batch
from klamm.spark.sink.marker_errors import CheckpointUnreadable


@pytest.fixture(params=["local", "pyarrow"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    """Returns a folder that does not exist yet. Its path has a space and a percent sign: they are no escapes."""
    place = str(tmp_path / "a folder%20")
    return folder_at(place) if request.param == "local" else _RemoteFolder(f"file://{place}")


def test_a_file_is_read_again(folder: Folder) -> None:
    """A written file can be read back; its parent folders are created, and `read` of a missing file returns `None`."""
    check_files(folder)


def test_files_and_folders_are_removed(folder: Folder) -> None:
    """Files and folders can be removed, also if they are gone already."""
    check_removals(folder)


def test_a_replacement_that_fails_leaves_nothing(folder: Folder) -> None:
    """A file that can't be written leaves no unfinished file: on a full disk, each attempt would add one."""
    with folder.open_to_write("a/taken/file") as file:
        file.write(b"content")

    with pytest.raises(OSError, match="taken"):
        folder.replace("a/taken", b"new")

    assert folder.names("a") == ["taken"]
    assert folder.read("a/taken/file") == b"content"


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/a/b/", "/a/b"),
        ("file:/a b", "/a b"),
        ("file:///a", "/a"),
        ("file://host/a", "/a"),
        ("s3a://bucket/a", "s3a://bucket/a"),
        ("a", os.path.abspath("a")),
    ],
)
def test_locations(location: str, expected: str) -> None:
    """A path without a scheme is local, and a local path becomes absolute."""
    assert absolute_location(location) == expected


def test_a_process_opens_a_file_system_once() -> None:
    """Folders with equal locations share a file system. Each opening of pyarrow's file system in memory is another one,
    so a file of the first folder is in the second one only if they share it. Another location has its own."""
    location = "mock:///shared"
    with folder_at(location).open_to_write("a/b") as file:
        file.write(b"content")

    assert folder_at(location).read("a/b") == b"content"
    assert folder_at("mock:///other").read("a/b") is None


def test_an_unknown_file_system_is_explained() -> None:
    """The error for an unknown file system names the location."""
    with pytest.raises(OSError, match=r"pyarrow\.fs can't open nofs://a"):
        folder_at("nofs://a")
    with pytest.raises(CheckpointUnreadable, match="can't read the checkpoint nofs://a"):
        read_batch("nofs://a", 0, "")


def test_a_micro_batch_is_read_from_the_checkpoint(tmp_path: Path) -> None:
    """A micro-batch is read from the checkpoint together with the previous offsets file, if that file still exists."""
    with pytest.raises(CheckpointUnreadable, match="has no file 'metadata'"):
        read_batch(str(tmp_path), 1, "run")
    (tmp_path / "metadata").write_text('{"id":"q"}')
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "1").write_text("v1\n{}\n-")

    batch = read_batch(str(tmp_path), 1, "run")
    assert (batch.query_id, batch.batch_id, batch.run_id, batch.previous_offsets_hash) == ("q", 1, "run", None)
    (tmp_path / "offsets" / "0").write_text("v1\n{}\n-")
    assert read_batch(str(tmp_path), 1, "run").previous_offsets_hash == batch.offsets_hash


def test_the_path_of_an_encoded_uri() -> None:
    """Spark percent-encodes the URIs of the files that it has written, unlike the location of a checkpoint."""
    assert local_path_of_uri("file:/a%20b") == "/a b"
    assert absolute_location("file:/a%20b") == "/a%20b"


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/a/b", ("/a", "b")),
        ("/a?b", ("/", "a?b")),
        ("s3://bucket/a/b", ("s3://bucket/a", "b")),
        ("s3://bucket/a/b?endpoint_override=http://h:9", ("s3://bucket/a?endpoint_override=http://h:9", "b")),
    ],
)
def test_a_file_is_split_into_folder_and_name(location: str, expected: tuple[str, str]) -> None:
    """The query of a URI stays with the folder; a local path has no query."""
    assert folder_and_name(location) == expected


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/a/b", "/a/b"),
        ("s3://bucket/a?region=eu", "s3://bucket/a?region=eu"),
        ("s3://key:word@bucket/a?region=eu", "s3://…@bucket/a?region=eu"),
        ("abfss://container@account.dfs.core.windows.net/a", "abfss://container@account.dfs.core.windows.net/a"),
        (
            "abfs://account/a?client_id=x&client_secret=word&tenant_id=y",
            "abfs://account/a?client_id=x&client_secret=…&tenant_id=y",
        ),
        ("s3://bucket/keys@home/a", "s3://bucket/keys@home/a"),
        ("s3://key:a/b+c@bucket/a", "s3://…@bucket/a"),
        ("s3://key:a@b@bucket/a", "s3://…@bucket/a"),
        ("hdfs://name:8020/user@home/a", "hdfs://name:8020/user@home/a"),
    ],
)
def test_messages_show_no_credentials(location: str, expected: str) -> None:
    """A location in a message has no credentials; the rest of it stays."""
    assert without_credentials(location) == expected
