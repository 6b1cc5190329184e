"""Tests the lines about groups in the broker's log."""

from __future__ import annotations

import logging

import pytest
from tests.unit.core.group.history.story import Story, parts

from klamm.core.group.events import Cause, Event, GroupType, Remark
from klamm.protocol.types import PartitionIndex
from klamm.runtime.event_log import describe, log_events

P0 = PartitionIndex(0)
STORY = Story()
CONSUMER = Story(GroupType.CONSUMER)


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (STORY.needed(Cause.MEMBER_LEFT, "a"), "group orders rebalances from generation 0: a member_left"),
        (CONSUMER.needed(Cause.MEMBER_LEFT, "a"), "group orders rebalances from epoch 0: a member_left"),
        (STORY.joined("a"), "group orders has a new member a at /10.0.0.1"),
        (STORY.removed("a"), "group orders lost member a: left"),
        (STORY.paused("a"), "group orders has stopped member a until it is assigned"),
        (STORY.new_epoch("a", "b"), "group orders has generation 1 with 2 members"),
        (STORY.new_epoch("a"), "group orders has generation 2 with 1 member"),
        (STORY.new_epoch(), "group orders is empty at generation 3"),
        (STORY.target({}), "group orders has its assignment for generation 3, by range"),
        (STORY.assigned("a", {}), "group orders has assigned to member a: {}"),
        (STORY.stable(), "group orders is stable at generation 3"),
        (STORY.loaded({}, 7), "group orders is loaded at generation 7"),
        (STORY.deleted(), "group orders was deleted"),
        (Remark("orders", "all is well"), "group orders: all is well"),
    ],
)
def test_every_event_has_its_words(event: Event, line: str) -> None:
    """Every event has a line; classic groups have generations, and consumer groups have epochs."""
    assert describe(event) == line


def test_changes_are_lines_and_members_are_details(caplog: pytest.LogCaptureFixture) -> None:
    """A rebalance is logged at INFO and its members at DEBUG, so that a hundred members take a few lines only."""
    events = [STORY.needed(), STORY.joined("a"), STORY.paused("a"), STORY.assigned("a", parts(0)), STORY.stable()]
    with caplog.at_level(logging.INFO, "klamm.runtime.event_log"):
        log_events(P0, events)
    assert len(caplog.messages) == 2
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "klamm.runtime.event_log"):
        log_events(P0, events)
    assert len(caplog.messages) == 5
    caplog.clear()
    with caplog.at_level(logging.WARNING, "klamm.runtime.event_log"):
        log_events(P0, events)
    assert not caplog.messages
