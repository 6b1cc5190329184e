"""Tests the view of a group's change."""

from __future__ import annotations

import io

from rich.console import Console
from tests.unit.core.group.history.history_records import cause, change, member, member_id

from klamm.cli.group.history_view import entry_view
from klamm.core.group.history.history_record import HistoryRecord
from klamm.insight.group.history_timeline import Change, Entry, Gap, Repeat
from klamm.insight.group.member_names import MemberNames


def _lines(value: bytes, kind: type[Change | Repeat] = Change, width: int = 100) -> list[str]:
    record = HistoryRecord.decode(value)
    names = MemberNames()
    for each in record.members.values():
        names.add(each.member_id, each.instance_id, each.client_id)
    return _shown(kind(record), names, width)


def _shown(entry: Entry, names: MemberNames, width: int = 100) -> list[str]:
    console = Console(width=width, record=True, file=io.StringIO(), highlight=False)
    console.print(entry_view(entry, names))
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_a_change_says_when_what_why_and_for_whom() -> None:
    """A change is shown with its time, its generation, its causes, the moved partitions and the paused members, with
    short names."""
    lines = _lines(
        change(
            epoch=7,
            before=[member("one", orders=[0, 1, 2, 3, 4])],
            after=[member("one", orders=[0, 1]), member("two", orders=[2, 3, 4])],
            causes=[cause("member_joined", "two", "member {} joined")],
            pauses=[{"member": member_id("one"), "ms": 250}],
        )
    )
    assert lines[0].endswith("  generation 6 → 7  stable after 1.2 s  1 → 2 members  range")
    assert lines[1:] == [
        "    why     member two joined (10.0.0.1)",
        "    moved   orders 2-4: one → two",
        "    paused  250 ms: one",
    ]


def test_each_outcome_has_its_words() -> None:
    """Each outcome has its own text, and an unknown outcome of a later version is shown unchanged."""
    shown = {
        outcome: _lines(change(outcome=outcome, type="consumer"))[0].partition("epoch 6 → 7  ")[2]
        for outcome in ("stable", "superseded", "empty", "deleted", "taken_over", "odd")
    }
    assert shown == {
        "stable": "stable after 1.2 s  0 members  range",
        "superseded": "superseded after 1.2 s  0 members  range",
        "empty": "empty  0 members  range",
        "deleted": "deleted  0 members  range",
        "taken_over": "another coordinator took over  0 members  range",
        "odd": "odd  0 members  range",
    }


def test_partitions_come_from_and_go_to_nobody() -> None:
    """A moved partition without a previous or a new owner is shown as such."""
    assert _lines(change(after=[member("one", orders=[0])]))[-1] == "    moved   orders 0: → one"
    assert _lines(change(before=[member("one", orders=[0])]))[-1] == "    moved   orders 0: one → no owner"


def test_long_lists_are_cut() -> None:
    """A long list is cut, and the last line says how to see the rest."""
    causes = [cause("member_joined", None, f"member {number} joined") for number in range(20)]
    lines = _lines(change(causes=causes))
    assert len(lines) == 9
    assert lines[-1] == "            and 13 more; --json has them all"


def test_it_fits_into_a_narrow_terminal() -> None:
    """In a narrow terminal, long text is wrapped and indented below its label."""
    text = "members had to be waited for, and waited for, and waited for, until the very last of them had come"
    lines = _lines(change(causes=[cause("admin", None, text)]), width=60)
    assert max(map(len, lines)) <= 60
    assert all(line.startswith("            ") for line in lines[3:])


def test_gaps_and_repeats_stand_out() -> None:
    """Gaps and repeats are marked differently from changes."""
    assert _shown(Gap("epoch 7 is not on record"), MemberNames()) == ["    ⚠ epoch 7 is not on record"]
    assert _lines(change(), Repeat) == ["    ↻ epoch 7 was written twice (coordinator epoch 3, sequence 7)"]


def test_a_limit_is_shown_with_its_figures_only() -> None:
    """A record that says what limits the group shows no moves and no pauses."""
    lines = _lines(
        change(
            outcome="limited",
            before=[member("one", orders=[0])],
            after=[member("one", orders=[0])],
            causes=[cause("limited_by_partition", None, f"limited by orders-0: its owner {member_id('one')} does 3/s")],
            pauses=[{"member": member_id("one"), "ms": 0}],
        )
    )
    assert lines[0].endswith("  limited  1 member  range")
    assert lines[1:] == ["    why     limited by orders-0: its owner one does 3/s"]
