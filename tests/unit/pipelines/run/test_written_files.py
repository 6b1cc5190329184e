"""Tests which files of a `to_files` sink belong to finished micro-batches."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from klamm.pipelines import PipelineError, written_files


def log(folder: Path, name: str, *paths: str, version: str = "v1") -> None:
    """Writes a file of the sink's list."""
    lines = [json.dumps({"path": path, "size": 1, "isDir": False, "action": "add"}) for path in paths]
    file = folder / "_spark_metadata" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("\n".join([version, *lines]), encoding="utf-8")


def test_files_of_finished_micro_batches(tmp_path: Path) -> None:
    """The files are in the order of the micro-batches; a file that no micro-batch lists is left out."""
    (tmp_path / "part-of-a-crashed-task.parquet").touch()
    log(tmp_path, "10", f"file://{tmp_path}/c.parquet")
    log(tmp_path, "2", f"file://{tmp_path}/b.parquet")
    log(tmp_path, "0", f"file://{tmp_path}/a.parquet")
    assert written_files(str(tmp_path)) == [f"{tmp_path}/{name}.parquet" for name in "abc"]


def test_a_summary_replaces_the_files_before_it(tmp_path: Path) -> None:
    """Of several summaries the newest counts; the files of micro-batches before it may still be there."""
    for batch in range(22):
        log(tmp_path, str(batch), f"file://{tmp_path}/{batch}")
    log(tmp_path, "9.compact", *(f"file://{tmp_path}/{batch}" for batch in range(10)))
    log(tmp_path, "19.compact", *(f"file://{tmp_path}/{batch}" for batch in range(20)))
    assert written_files(str(tmp_path)) == [f"{tmp_path}/{batch}" for batch in range(22)]


def test_files_that_are_being_written_are_left_out(tmp_path: Path) -> None:
    """Temporary files and checksums of Hadoop are no micro-batches; an empty micro-batch has no files."""
    log(tmp_path, "0")
    for name in (".1.crc", ".1.5f0c.tmp", "1.tmp"):
        (tmp_path / "_spark_metadata" / name).touch()
    assert written_files(str(tmp_path)) == []


def test_paths(tmp_path: Path) -> None:
    """A local path has no percent signs of its URI; a path of another file system stays a URI."""
    log(tmp_path, "0", f"file://{tmp_path}/day=2013-01-01%2012%3A00/a.parquet", "s3a://tables/b%20c.parquet")
    assert written_files(f"file://{tmp_path}") == [
        f"{tmp_path}/day=2013-01-01 12:00/a.parquet",
        "s3a://tables/b%20c.parquet",
    ]


def test_a_folder_without_a_finished_micro_batch(tmp_path: Path) -> None:
    """The error names the folder."""
    with pytest.raises(PipelineError, match=f"{tmp_path} has no files of a finished micro-batch"):
        written_files(str(tmp_path))


def test_an_unknown_version(tmp_path: Path) -> None:
    """A list in another format is refused, so that no files are missing without a word."""
    log(tmp_path, "0", version="v2")
    with pytest.raises(PipelineError, match="begins with 'v2'"):
        written_files(str(tmp_path))
