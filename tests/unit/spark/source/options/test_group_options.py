"""Tests the options of the group: their values, and their allowed combinations."""

from __future__ import annotations

import logging

import pytest

from klamm.spark.source.errors import OptionError
from klamm.spark.source.options.options import SourceOptions

GIVEN = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t", "kafka.group.id": "g"}


def test_what_is_not_said() -> None:
    """By default, a query with a group commits to the group, and the checkpoint wins a conflict."""
    options = SourceOptions.for_stream(GIVEN).klamm

    assert (options.group_mode, options.group_conflict, options.group_checkpoint) == ("commit", "checkpoint", None)


def test_what_can_be_said() -> None:
    """All options can be set, and option names are case-insensitive."""
    options = SourceOptions.for_stream(
        GIVEN
        | {
            "klamm.group.mode": "member",
            "Klamm.Group.Conflict": "FAIL",
            "startingOffsets": "committed",
            "klamm.group.reset": "latest",
            "klamm.group.checkpointLocation": "/checkpoints/q",
            "kafka.session.timeout.ms": "6000",
            "kafka.heartbeat.interval.ms": "500",
        }
    )

    assert options.starting_offsets == "committed"
    assert options.klamm.group_mode == "member"
    assert options.klamm.group_conflict == "fail"
    assert options.klamm.group_reset == "latest"
    assert options.klamm.group_checkpoint == "/checkpoints/q"
    assert (options.client.session_timeout_ms, options.client.heartbeat_interval_ms) == (6_000, 500)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"klamm.group.mode": "owner"}, "klamm.group.mode=owner: it is commit or member"),
        ({"klamm.group.reset": "earliest"}, "klamm.group.reset is for startingOffsets=committed"),
        ({"klamm.group.checkpointLocation": " "}, "klamm.group.checkpointLocation is empty"),
        ({"kafka.session.timeout.ms": "3000", "klamm.group.mode": "member"}, "heartbeat.interval.ms.* below"),
    ],
)
def test_what_is_refused(given: dict[str, str], text: str) -> None:
    """A refused option is named in the error."""
    with pytest.raises(OptionError, match=text):
        SourceOptions.for_stream(GIVEN | given)


@pytest.mark.parametrize("option", ["klamm.group.mode", "klamm.group.conflict"])
def test_options_of_a_group_need_one(option: str) -> None:
    """An option that needs a group is refused without one, not ignored silently."""
    given = {key: value for key, value in GIVEN.items() if key != "kafka.group.id"}
    words = {"klamm.group.mode": "commit", "klamm.group.conflict": "fail"}

    with pytest.raises(OptionError, match=r"needs kafka\.group\.id"):
        SourceOptions.for_stream(given | {option: words[option]})
    with pytest.raises(OptionError, match=r"startingOffsets=committed needs kafka\.group\.id"):
        SourceOptions.for_batch(given | {"startingOffsets": "committed"})


def test_a_batch_read_is_no_member() -> None:
    """A batch read can start at the committed offsets but can't be a member."""
    assert SourceOptions.for_batch(GIVEN | {"startingOffsets": "committed"}).starting_offsets == "committed"
    with pytest.raises(OptionError, match="for streaming queries"):
        SourceOptions.for_batch(GIVEN | {"klamm.group.mode": "member"})


def test_a_batch_read_is_not_stopped_by_a_file() -> None:
    """A batch read refuses the file that stops a streaming query."""
    assert SourceOptions.for_stream(GIVEN | {"klamm.stop.file": "/q/stop"}).klamm.stop_file == "/q/stop"
    with pytest.raises(OptionError, match="a batch read ends by itself"):
        SourceOptions.for_batch(GIVEN | {"klamm.stop.file": "/q/stop"})


def test_a_batch_read_follows_no_query() -> None:
    """A batch read refuses the checkpoint of a query to follow."""
    given = GIVEN | {"klamm.follow.checkpointLocation": "/q"}
    assert SourceOptions.for_stream(given).klamm.followed_checkpoint == "/q"
    with pytest.raises(OptionError, match="give a batch read the end as endingOffsets"):
        SourceOptions.for_batch(given)


def test_nothing_ends_where_a_group_stands() -> None:
    """`committed` is valid as a start and refused as an end."""
    with pytest.raises(OptionError):
        SourceOptions.for_batch(GIVEN | {"endingOffsets": "committed"})


def test_a_session_without_a_member_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """A session timeout without member mode has no effect and causes a warning."""
    with caplog.at_level(logging.WARNING):
        SourceOptions.for_stream(GIVEN | {"kafka.session.timeout.ms": "6000"})

    assert "no effect without klamm.group.mode=member" in caplog.text
