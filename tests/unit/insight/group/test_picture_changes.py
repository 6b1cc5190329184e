"""Tests the description of a group's changes since the last snapshot."""

from __future__ import annotations

from tests.unit.insight.pictures import group, keys, member

from klamm.insight.group.group_picture import GroupPicture
from klamm.insight.group.group_waits import Wait
from klamm.insight.group.member_names import MemberNames
from klamm.insight.group.picture_changes import changed, new_waits, summary


def _changed(before: GroupPicture | None, after: GroupPicture | None) -> list[str]:
    names = MemberNames()
    for picture in (before, after):
        if picture is not None:
            picture.name_members(names)
    return list(changed(before, after, names))


def test_a_group_that_stays_as_it_is_is_not_worth_a_line() -> None:
    """A group without changes gives no line."""
    picture = group(member("one", [0]))
    assert _changed(picture, picture) == []
    assert _changed(None, None) == []


def test_everything_that_changes_has_its_line() -> None:
    """Each change has its own line: state, epoch, members, and partitions with a new owner."""
    before = group(member("one", [0, 1, 2]), member("gone", [3]))
    after = group(member("one", [0]), member("two", [1, 2]), epoch=8, state="reconciling")
    assert _changed(before, after) == [
        "state stable → reconciling",
        "epoch 7 → 8",
        "gone is gone",
        "two has come from 10.0.0.1",
        "orders 1, 2: one → two",
        "orders 3: gone → no owner",
    ]


def test_a_group_may_come_go_and_change_its_protocol() -> None:
    """A group can appear, disappear, and change its protocol or assignor."""
    assert _changed(None, group()) == ["the group is there"]
    assert _changed(group(), None) == ["the group is gone"]
    assert _changed(group(kind="classic", assignor="range", epoch=None), group()) == [
        "protocol classic → consumer",
        "epoch None → 7",
        "assignor range → uniform",
    ]


def test_only_new_waits_are_told() -> None:
    """Only new waits are reported; a different start time does not make a wait new."""
    one = Wait("two-0", keys([1]), "one-0", None)
    two = Wait("two-0", keys([2]), "one-0", None)
    assert new_waits([one], [one._replace(since_ms=5), two]) == [two]


def test_the_group_in_one_line() -> None:
    """The summary is one line and leaves out unknown values."""
    assert summary(group(member("one")), "lag 1,204") == "consumer, stable, epoch 7, uniform, 1 member, lag 1,204"
    assert summary(group(epoch=None, assignor=None, state="empty"), None) == "consumer, empty, 0 members"
