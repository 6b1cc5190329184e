"""Records that a group skipped: a member receives each record below the committed offset, and at the end every record.

The polls of one member do not show records that are left out between two owners of a partition. These checks do (I18,
I26).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.checker.anomaly import Anomaly
from tests.checker.facts import Facts, GroupFetch
from tests.checker.history import Poll

__all__ = ["find", "last_fetches"]


def last_fetches(facts: Facts) -> dict[str, GroupFetch]:
    """Returns, by group, the last fetched offsets."""
    return {fetch.group: fetch for fetch in facts.fetches}


def find(facts: Facts) -> Iterator[Anomaly]:
    """Yields `group-skip` for records below the committed offset that other consumers saw but no member of the group
    did.

    Yields `group-unread` for records at or above the committed offset at the end of a complete run.
    """
    polled: dict[tuple[str, str], set[int]] = defaultdict(set)
    for entries in facts.reading.values():
        for entry in entries:
            event = entry.event
            if isinstance(event, Poll) and event.group is not None:
                for partition, offsets, _ in event.batches:
                    polled[event.group, partition].update(offsets)
    for group, fetch in last_fetches(facts).items():
        for partition, fetched in fetch.offsets.items():
            committed = fetched or 0
            visible = facts.visible["read_committed"].get(partition, [])
            seen = polled[group, partition]
            skipped = [offset for offset in visible if offset < committed and offset not in seen]
            unread = [offset for offset in visible if offset >= committed] if facts.is_whole else []
            text = f"{group} has committed {committed} of {partition}"
            if skipped:
                shown = f"{len(skipped)} records from {skipped[0]} to {skipped[-1]}"
                yield Anomaly("group-skip", f"{text}, and no member has polled {shown}", (fetch.index,))
            if unread:
                shown = f"{len(unread)} records from {unread[0]} to {unread[-1]}"
                yield Anomaly("group-unread", f"{text}, and has not come to {shown}", (fetch.index,))
