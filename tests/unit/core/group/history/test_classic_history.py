"""Tests of the history records of classic groups, from events alone."""

from __future__ import annotations

from tests.unit.core.group.history.story import Story, parts

from klamm.core.group.events import Cause


def test_first_generation_names_everybody_who_joined() -> None:
    """The first generation has one record, which begins with the first join and has all joins as causes."""
    story = Story()
    story.tell(story.joined("a"), story.needed(Cause.MEMBER_JOINED, "a"))
    story.now = 1500
    story.tell(story.joined("b"), story.needed(Cause.MEMBER_JOINED, "b"))
    story.now = 4000
    story.settle({"a": parts(0, 1), "b": parts(2)})
    assert story.records == [
        {
            "version": 1,
            "group": "orders",
            "type": "classic",
            "coordinator_epoch": 4,
            "sequence": 0,
            "previous_epoch": 0,
            "epoch": 1,
            "outcome": "stable",
            "causes": [
                {"code": "member_joined", "member": "a", "text": "a member_joined", "at_ms": 1000, "crash_loop": False},
                {"code": "member_joined", "member": "b", "text": "b member_joined", "at_ms": 1500, "crash_loop": False},
            ],
            "assignor": "range",
            "started_ms": 1000,
            "finished_ms": 4000,
            "members_before": [],
            "members_after": [
                {
                    "member": "a",
                    "instance": None,
                    "client": "client-a",
                    "host": "/10.0.0.1",
                    "partitions": {"events": [0, 1]},
                },
                {
                    "member": "b",
                    "instance": None,
                    "client": "client-b",
                    "host": "/10.0.0.1",
                    "partitions": {"events": [2]},
                },
            ],
            "moved": [
                {"topic": "events", "partition": 0, "from": None, "to": "a", "committed_offset": 0},
                {"topic": "events", "partition": 1, "from": None, "to": "a", "committed_offset": 10},
                {"topic": "events", "partition": 2, "from": None, "to": "b", "committed_offset": 20},
            ],
            "pauses": [],
        }
    ]


def test_eager_member_pauses_from_joining_to_being_assigned() -> None:
    """An eager member pauses from JoinGroup to its assignment; a member without partitions before or after does not."""
    story = Story()
    story.start({"a": parts(0, 1, 2), "b": parts(3)})
    story.now = 5000
    story.tell(story.joined("c"), story.needed(Cause.MEMBER_JOINED, "c"))
    story.now = 6000
    story.tell(story.paused("a"))
    story.now = 7000
    story.tell(story.paused("b"))
    story.tell(story.new_epoch("a", "b", "c"))
    story.now = 7500
    target = {"a": parts(0, 1), "b": parts(), "c": parts(2, 3)}
    story.tell(story.target(target), story.assigned("b", parts()), story.assigned("a", parts(0, 1)), story.stable())
    assert len(story.records) == 1, "c has not asked for its assignment yet"
    story.now = 8000
    story.tell(story.assigned("c", parts(2, 3)))
    assert story.pauses() == {"a": 1500}
    assert story.moved() == {2: ("a", "c"), 3: ("b", "c")}
    assert (story.last["started_ms"], story.last["finished_ms"]) == (5000, 8000)


def test_cooperative_member_does_not_pause_for_what_it_keeps() -> None:
    """A cooperative member does not pause for partitions that it keeps; moving ones first have no owner (KIP-429)."""
    story = Story()
    story.start({"a": parts(0, 1, 2)})
    story.now = 5000
    story.tell(story.joined("b"), story.needed(Cause.MEMBER_JOINED, "b"))
    story.now = 6000
    story.tell(story.paused("a", kept=parts(0, 1, 2)))
    story.now = 7000
    story.settle({"a": parts(0, 1), "b": parts()})
    assert story.pauses() == {"a": 0}
    assert story.moved() == {2: ("a", None)}
    story.now = 7100
    story.tell(story.paused("a", kept=parts(0, 1)), story.needed(Cause.PARTITIONS_REVOKED, "a"))
    story.now = 7300
    story.tell(story.paused("b"))
    story.settle({"a": parts(0, 1), "b": parts(2)})
    assert story.codes() == ["partitions_revoked"]
    assert story.pauses() == {"a": 0}
    assert story.moved() == {2: (None, "b")}


def test_members_that_go_while_others_gather_are_causes_too() -> None:
    """Members that leave, die or miss the rebalance timeout during a rebalance are causes and members before."""
    story = Story()
    story.start({"a": parts(0), "b": parts(1), "c": parts(2), "d": parts(3)})
    story.tell(story.removed("b"), story.needed(Cause.MEMBER_LEFT, "b"))
    story.tell(story.removed("c", Cause.SESSION_TIMED_OUT), story.needed(Cause.SESSION_TIMED_OUT, "c"))
    story.tell(story.paused("a"))
    story.tell(
        story.removed("d", Cause.REBALANCE_TIMED_OUT),
        story.needed(Cause.REBALANCE_TIMED_OUT, "d"),
        story.new_epoch("a"),
    )
    story.tell(story.target({}), story.assigned("a", parts(0, 1, 2, 3)), story.stable())
    assert story.codes() == ["member_left", "session_timed_out", "rebalance_timed_out"]
    assert list(story.members("before")) == ["a", "b", "c", "d"]
    assert story.members("after") == {"a": {"events": [0, 1, 2, 3]}}
    assert story.moved() == {1: ("b", "a"), 2: ("c", "a"), 3: ("d", "a")}


def test_superseded_generation_has_a_record_that_moves_nothing() -> None:
    """A superseded generation has a record without moves and pauses; the next record has the moves from the last owners
    and the pauses from the first stop.
    """
    story = Story()
    story.start({"a": parts(0, 1), "b": parts(2)})
    story.now = 5000
    story.tell(story.joined("c"), story.needed(Cause.MEMBER_JOINED, "c"))
    story.tell(story.paused("a"))
    story.tell(story.paused("b"), story.new_epoch("a", "b", "c"))
    story.now = 9000
    story.tell(story.removed("b"), story.needed(Cause.MEMBER_LEFT, "b"))
    assert story.outcomes()[1:] == [("superseded", 1, 2)]
    assert (story.last["moved"], story.last["pauses"], story.last["assignor"]) == ([], [], None)
    assert story.members("after") == {"a": {"events": [0, 1]}, "b": {"events": [2]}, "c": {}}
    before_next = story.last["members_after"]
    story.tell(story.paused("a"))
    story.now = 9500
    story.settle({"a": parts(0), "c": parts(1, 2)})
    assert story.outcomes()[2:] == [("stable", 2, 3)]
    assert story.last["members_before"] == before_next
    assert story.moved() == {1: ("a", "c"), 2: ("b", "c")}
    assert story.pauses() == {"a": 4500}
    assert [record["sequence"] for record in story.records] == [0, 1, 2]


def test_stable_generation_stands_though_a_member_never_asked_for_its_assignment() -> None:
    """A generation is recorded as stable even if one member never sends SyncGroup; its removal is the next change."""
    story = Story()
    for member_id in "ab":
        story.tell(story.joined(member_id), story.needed(Cause.MEMBER_JOINED, member_id))
    story.tell(story.new_epoch("a", "b"))
    story.tell(story.target({}), story.assigned("a", parts(0)), story.stable())
    story.now = 60_000
    story.tell(story.removed("b", Cause.REBALANCE_TIMED_OUT), story.needed(Cause.REBALANCE_TIMED_OUT, "b"))
    assert story.outcomes() == [("stable", 0, 1)]
    assert story.last["finished_ms"] == 1000


def test_last_member_leaves_an_empty_group() -> None:
    """The last member that leaves ends the change with the outcome empty, in one decision."""
    story = Story()
    story.start({"a": parts(0)})
    story.tell(story.removed("a"), story.needed(Cause.MEMBER_LEFT, "a"), story.new_epoch(), story.stable())
    assert story.outcomes()[1:] == [("empty", 1, 2)]
    assert story.moved() == {0: ("a", None)}


def test_static_member_that_returns_changes_the_group_without_a_new_generation() -> None:
    """The return of a static member is a change without a new generation and without moves."""
    story = Story()
    story.tell(story.joined("a-1", "pod-1"), story.needed(Cause.MEMBER_JOINED, "a-1"))
    story.tell(story.joined("b"), story.needed(Cause.MEMBER_JOINED, "b"))
    story.settle({"a-1": parts(0), "b": parts(1)})
    story.now = 3000
    story.tell(story.removed("a-1", Cause.STATIC_MEMBER_RETURNED), story.joined("a-2", "pod-1"), story.paused("a-2"))
    story.now = 3002
    story.tell(story.assigned("a-2", parts(0)), story.stable())
    assert story.outcomes()[1:] == [("stable", 1, 1)]
    assert story.codes() == ["static_member_returned"]
    assert story.moved() == {}
    assert story.pauses() == {"a-2": 2, "b": 0}


def test_static_member_that_returns_during_a_rebalance_keeps_its_place() -> None:
    """A static member that returns during a rebalance keeps its partitions in the history, under its new member id."""
    story = Story()
    story.tell(story.joined("a-1", "pod-1"), story.needed(Cause.MEMBER_JOINED, "a-1"))
    story.settle({"a-1": parts(0, 1)})
    story.tell(story.joined("b"), story.needed(Cause.MEMBER_JOINED, "b"))
    story.now = 3000
    story.tell(
        story.removed("a-1", Cause.STATIC_MEMBER_RETURNED),
        story.joined("a-2", "pod-1"),
        story.paused("a-2"),
        story.needed(Cause.STATIC_MEMBER_RETURNED, "a-2"),
    )
    story.now = 3500
    story.settle({"b": parts(1), "a-2": parts(0)})
    assert story.codes() == ["member_joined", "static_member_returned"]
    assert story.moved() == {1: ("a-1", "b")}
    assert story.pauses() == {"a-2": 500}


def test_group_that_was_taken_over_is_told_with_its_first_change() -> None:
    """A new coordinator records the takeover of a group with the first change, so an idle group costs no record."""
    story = Story()
    story.tell(story.loaded({"a": parts(0), "b": parts(1)}, epoch=7))
    assert story.records == []
    story.now = 9000
    story.tell(story.removed("b", Cause.SESSION_TIMED_OUT), story.needed(Cause.SESSION_TIMED_OUT, "b"))
    assert story.outcomes() == [("taken_over", 7, 7)]
    assert story.codes() == ["coordinator_moved"]
    assert story.last["members_before"] == story.last["members_after"]
    assert story.last["finished_ms"] == 1000
    story.settle({"a": parts(0, 1)})
    assert story.outcomes()[1:] == [("stable", 7, 8)]
    assert story.moved() == {1: ("b", "a")}


def test_change_in_progress_ends_with_the_group() -> None:
    """The deletion of a group is recorded, and a later group of the same name starts with sequence 0."""
    story = Story()
    story.start({"a": parts(0)})
    story.tell(story.removed("a"), story.needed(Cause.MEMBER_LEFT, "a"), story.new_epoch(), story.stable())
    story.tell(story.deleted(Cause.OFFSETS_EXPIRED))
    assert story.outcomes()[2:] == [("deleted", 2, 2)]
    assert story.codes() == ["offsets_expired"]
    story.epoch = 0
    story.start({"a": parts(0)})
    assert [record["sequence"] for record in story.records] == [0, 1, 2, 0]


def test_group_that_reads_the_history_is_not_in_it() -> None:
    """A group that reads the history topic has no records, since each record would give it more to read."""
    story = Story()
    story.tell(story.joined("a"), story.needed(Cause.MEMBER_JOINED, "a"))
    topics = ["events", "__group_history"]
    story.settle({"a": parts(0, topic="__group_history")}, topics=topics)
    story.tell(story.removed("a"), story.needed(Cause.MEMBER_LEFT, "a"), story.new_epoch(topics=()), story.stable())
    story.tell(story.deleted())
    assert story.records == []


def test_crash_loop_shows_on_its_cause() -> None:
    """Only the cause that belongs to a crash loop is marked as such."""
    story = Story()
    story.tell(story.joined("a"), story.needed(Cause.MEMBER_JOINED, "a"))
    story.tell(story.removed("a"), story.needed(Cause.SESSION_TIMED_OUT, "a", crash_loop=True))
    story.tell(story.new_epoch(), story.stable())
    assert [cause["crash_loop"] for cause in story.last["causes"]] == [False, True]


def test_missing_events_show_as_a_gap_between_epochs() -> None:
    """Missing events show as a gap between epochs, and the members are correct again with the next epoch."""
    story = Story()
    story.start({"a": parts(0)})
    story.tell(story.needed(Cause.MEMBER_JOINED, "b"))
    story.epoch = 4
    story.settle({"a": parts(0), "c": parts(1)})
    assert story.outcomes()[1:] == [("stable", 1, 5)]
    assert story.members("after") == {"a": {"events": [0]}, "c": {"events": [1]}}
    assert story.last["members_after"][1]["client"] == ""


def test_two_groups_of_one_decision_are_told_apart() -> None:
    """Events of several groups in one decision, such as a deletion, are recorded for each group separately."""
    story, other = Story(), Story(group_id="payments")
    story.start({"a": parts(0)})
    story.tell(other.deleted(), story.removed("a"), story.needed(Cause.MEMBER_LEFT, "a"))
    story.settle({})
    assert [(record["group"], record["outcome"]) for record in story.records] == [
        ("orders", "stable"),
        ("payments", "deleted"),
        ("orders", "empty"),
    ]


def test_partition_that_the_coordinator_gives_up_is_forgotten() -> None:
    """The history of a partition that the coordinator gives up is forgotten; later sequences start at 0 again."""
    story = Story()
    story.start({"a": parts(0)})
    story.trackers.forget(story.trackers.partitions()[0])
    assert story.trackers.partitions() == []
    story.tell(story.loaded({"a": parts(0)}, epoch=1))
    story.tell(story.removed("a"), story.needed(Cause.MEMBER_LEFT, "a"), story.new_epoch(), story.stable())
    assert [record["sequence"] for record in story.records] == [0, 0, 1]
