"""Tests of the history records of groups of the consumer protocol, from events alone."""

from __future__ import annotations

from tests.unit.core.group.history.story import Story, parts

from klamm.core.group.events import Cause, GroupType


def stable_group() -> Story:
    """Returns the story of a stable group in which a has partitions 0 to 2 and b has partition 3."""
    story = Story(GroupType.CONSUMER)
    story.tell(story.joined("a"), story.needed(Cause.MEMBER_JOINED, "a"), story.new_epoch("a"))
    story.tell(
        story.target({"a": parts(0, 1, 2, 3)}, "uniform"), story.assigned("a", parts(0, 1, 2, 3)), story.stable()
    )
    story.tell(story.joined("b"), story.needed(Cause.MEMBER_JOINED, "b"), story.new_epoch("a", "b"))
    story.tell(story.target({"a": parts(0, 1, 2), "b": parts(3)}, "uniform"), story.assigned("b", parts()))
    story.tell(story.assigned("a", parts(0, 1, 2)))
    story.tell(story.assigned("b", parts(3)), story.stable())
    return story


def test_epoch_is_told_when_every_member_has_its_target() -> None:
    """An epoch is recorded when every member has its target; members do not pause for partitions that they keep."""
    story = stable_group()
    assert story.outcomes() == [("stable", 0, 1), ("stable", 1, 2)]
    assert story.last["type"] == "consumer"
    assert story.last["assignor"] == "uniform"
    assert story.moved() == {3: ("a", "b")}
    assert story.pauses() == {"a": 0}


def test_superseded_epoch_tells_the_moves_that_have_come_to_an_end() -> None:
    """A superseded epoch records the complete moves; other moves are recorded with the epoch in which they complete."""
    story = stable_group()
    story.tell(story.joined("c"), story.needed(Cause.MEMBER_JOINED, "c"), story.new_epoch("a", "b", "c"))
    story.tell(story.target({"a": parts(0), "b": parts(3), "c": parts(1, 2)}), story.assigned("c", parts()))
    story.tell(story.assigned("a", parts(0, 2)))
    story.tell(story.assigned("c", parts(1)))
    story.tell(story.assigned("a", parts(0)))
    story.tell(story.removed("c"), story.needed(Cause.MEMBER_LEFT, "c"), story.new_epoch("a", "b"))
    assert story.outcomes()[2:] == [("superseded", 2, 3)]
    assert story.moved() == {1: ("a", "c")}
    story.tell(story.target({}), story.assigned("b", parts(1, 2, 3)), story.stable())
    assert story.outcomes()[3:] == [("stable", 3, 4)]
    assert story.moved() == {1: ("c", "b"), 2: ("a", "b")}
    assert story.members("before")["c"] == {"events": [1]}


def test_one_decision_may_end_one_epoch_and_begin_the_next() -> None:
    """A decision may end one epoch and begin the next; a member that joins with it belongs to the next epoch only."""
    story = stable_group()
    story.tell(story.needed(Cause.PARTITIONS_ADDED), story.new_epoch("a", "b"))
    story.tell(story.joined("c"), story.needed(Cause.MEMBER_JOINED, "c"), story.new_epoch("a", "b", "c"))
    assert story.outcomes()[2:] == [("superseded", 2, 3)]
    assert list(story.members("after")) == ["a", "b"]
    story.tell(story.removed("c"), story.needed(Cause.MEMBER_LEFT, "c"), story.new_epoch("a", "b"))
    assert list(story.members("after")) == ["a", "b", "c"]


def test_reconciliation_after_the_group_is_stable_is_no_change() -> None:
    """A repeated assignment in a stable group makes no record."""
    story = stable_group()
    story.tell(story.assigned("a", parts(0, 1, 2)))
    story.tell(story.stable())
    assert len(story.records) == 2


def test_group_that_changes_its_protocol_keeps_its_story() -> None:
    """A group that changes its protocol continues its history, and its epoch continues the generation."""
    story = Story()
    story.start({"a": parts(0)})
    story.group_type = GroupType.CONSUMER
    story.tell(story.needed(Cause.PROTOCOL_CHANGED, "b"), story.joined("b"), story.new_epoch("a", "b"))
    story.tell(story.target({}, "uniform"), story.assigned("b", parts()), story.stable())
    assert story.outcomes() == [("stable", 0, 1), ("stable", 1, 2)]
    assert [record["type"] for record in story.records] == ["classic", "consumer"]


def test_epochs_that_follow_each_other_fast_tell_each_move_once() -> None:
    """Superseded epochs record each move once; an unfinished move keeps its original owner."""
    story = stable_group()
    story.tell(story.joined("c"), story.needed(Cause.MEMBER_JOINED, "c"), story.new_epoch("a", "b", "c"))
    story.tell(story.assigned("a", parts(0, 2)))
    story.tell(story.assigned("c", parts(1)))
    story.tell(story.joined("d"), story.needed(Cause.MEMBER_JOINED, "d"), story.new_epoch("a", "b", "c", "d"))
    assert story.moved() == {1: ("a", "c")}
    story.tell(story.assigned("a", parts(0)))
    story.tell(story.joined("e"), story.needed(Cause.MEMBER_JOINED, "e"), story.new_epoch("a", "b", "c", "d", "e"))
    assert story.moved() == {}
    story.tell(story.assigned("e", parts(2)), story.assigned("d", parts()))
    story.tell(story.removed("e"), story.needed(Cause.MEMBER_LEFT, "e"), story.new_epoch("a", "b", "c", "d"))
    assert story.moved() == {2: ("a", "e")}
    story.tell(story.assigned("b", parts()), story.assigned("d", parts(3)))
    story.tell(story.removed("d"), story.needed(Cause.MEMBER_LEFT, "d"), story.new_epoch("a", "b", "c"))
    assert story.moved() == {3: ("b", "d")}
    story.tell(story.assigned("b", parts(3)), story.assigned("c", parts(1, 2)), story.stable())
    assert story.outcomes()[2:] == [("superseded", epoch, epoch + 1) for epoch in (2, 3, 4, 5)] + [("stable", 6, 7)]
    assert story.moved() == {2: ("e", "c"), 3: ("d", "b")}
