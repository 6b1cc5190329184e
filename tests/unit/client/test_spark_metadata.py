"""Tests the Spark application's name in the metadata of commits."""

from __future__ import annotations

from klamm.client.spark_metadata import application_in, commit_metadata


def test_commits_tell_their_application() -> None:
    """The application's name is read from the metadata of its commits, and other metadata has no name."""
    assert application_in(commit_metadata("local-1")) == "local-1"
    assert application_in(commit_metadata("local-1") + "\x7fwhat lay behind") == "local-1"
    assert application_in("") is None
    assert application_in("deploy 7") is None
