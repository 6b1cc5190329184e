"""Tests the change of one file of the list that Spark's file sink keeps. Real lists: tests/spark/pipelines."""

from __future__ import annotations

import json

import pytest

from klamm.pipelines import PipelineError
from klamm.pipelines.run.backfill.file_sink_log import without_entries


def entry(path: str) -> str:
    return json.dumps({"path": path, "size": 3, "isDir": False, "action": "add"})


def test_entries_are_taken_out() -> None:
    """Entries are found by their decoded path, whether Spark has written the local scheme with one slash or three; the
    other lines stay as they are."""
    kept = entry("file:///data/day=2/a")
    content = "\n".join(["v1", entry("file:///data/day=1%253A/a%20b"), kept, entry("file:/data/day=1/c")])
    assert without_entries("3", content, {"/data/day=1%3A/a b", "/data/day=1/c"}) == f"v1\n{kept}"
    assert without_entries("3", content, set()) == content
    assert without_entries("3", "v1", {"/data"}) == "v1"


def test_entries_of_other_file_systems_keep_their_scheme() -> None:
    """A path in an object store is compared with its scheme and bucket."""
    content = "\n".join(["v1", entry("s3a://bucket/data/a")])
    assert without_entries("3", content, {"/data/a"}) == content
    assert without_entries("3", content, {"s3a://bucket/data/a"}) == "v1"


def test_an_unknown_version_is_refused() -> None:
    """A list of a later version of Spark is not changed."""
    with pytest.raises(PipelineError, match="begins with 'v2'; klamm knows only v1"):
        without_entries("3", "v2\n", set())
