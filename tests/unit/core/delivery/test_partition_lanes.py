"""Tests of the records of one partition: order among them, and what a commit says."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from klamm.core.delivery.commit_text import RangeRoom, decode_note, encode_note
from klamm.core.delivery.partition_lanes import PartitionLanes
from klamm.core.delivery.range_bytes import OffsetRange
from klamm.core.delivery.record_window import PATIENCE_MS, RecordWindow
from klamm.core.delivery.work import Received, Work
from klamm.protocol.types import Offset, PartitionIndex, TopicPartition

NAME = TopicPartition("orders", PartitionIndex(0))
WIDE = RangeRoom(1000, 100)


def new_lanes(keys: str, *, finished: Iterable[OffsetRange] = (), room: RangeRoom = WIDE) -> PartitionLanes:
    """Returns a partition that has received a record for each letter, with the letter as the key; `-` is no key."""
    lanes = PartitionLanes(NAME, Offset(0), finished, room)
    receive(lanes, keys)
    return lanes


def receive(lanes: PartitionLanes, keys: str, first: int = 0) -> None:
    """Receives a record for each letter."""
    lanes.receive(
        [
            Received(Offset(first + at), None if key == "-" else key.encode(), 10, key)
            for at, key in enumerate(keys)
            if key != "."
        ],
        is_keyed=True,
        lane=None,
        now_ms=0,
    )


def start_all(lanes: PartitionLanes) -> list[Work]:
    """Starts all records that may start, one by one."""
    started = []
    while lanes.startable is not None:
        started += lanes.start(1, 0)
    return started


def offsets(run: Iterable[Work]) -> list[int]:
    """Returns the offsets of records."""
    return [work.offset for work in run]


def test_the_records_of_a_key_run_one_by_one() -> None:
    """The first record of each key starts; the next one starts when the first is finished."""
    lanes = new_lanes("aabab")
    run = start_all(lanes)
    assert offsets(run) == [0, 2]
    lanes.finish([run[0]])
    assert offsets(start_all(lanes)) == [1]


def test_records_without_a_key_have_no_order() -> None:
    """All of them start."""
    assert offsets(start_all(new_lanes("---"))) == [0, 1, 2]


def test_a_batch_keeps_the_order_of_each_key() -> None:
    """A batch may have several records of a key, in order; no other run has this key meanwhile."""
    lanes = new_lanes("abaab")
    run = lanes.start(4, 0)
    assert offsets(run) == [0, 2, 3, 1]
    assert lanes.startable is None
    lanes.finish(run)
    assert offsets(start_all(lanes)) == [4]


def test_a_failed_record_keeps_its_place() -> None:
    """The later records of its key wait; those of its batch are queued again in order."""
    lanes = new_lanes("aaaab")
    run = lanes.start(3, 0)
    (first,) = lanes.put_back(run)
    assert first.offset == 0
    assert offsets(start_all(lanes)) == [4]
    lanes.make_ready(first)
    for offset in range(4):
        (work,) = lanes.start(1, 0)
        assert work.offset == offset
        lanes.finish([work])


def test_the_position_is_the_end_of_the_unbroken_run() -> None:
    """Finished records beyond it are ranges; offsets without a record between them belong to their range."""
    lanes = new_lanes("ab.cd")
    run = start_all(lanes)
    lanes.finish([run[1]])
    assert (lanes.position, lanes.finished_ranges()) == (0, ((1, 2),))
    lanes.finish([run[3]])
    assert (lanes.position, lanes.finished_ranges()) == (0, ((1, 2), (4, 5)))
    lanes.finish([run[0]])
    assert (lanes.position, lanes.finished_ranges()) == (3, ((4, 5),))
    lanes.finish([run[2]])
    assert (lanes.position, lanes.finished_ranges()) == (5, ())


def test_a_gap_in_the_offsets_does_not_make_the_ranges_long() -> None:
    """Compaction and aborted transactions leave gaps. The text of a commit has no room for a range that covers one."""
    lanes = PartitionLanes(NAME, Offset(0), (), RangeRoom.within(4096))
    offsets_of = [*range(8000), 200_000]
    lanes.receive([Received(Offset(each), b"%d" % each, 1, None) for each in offsets_of], True, None, 0)
    run = lanes.start(8000, 0)
    lanes.finish([work for work in run if work.offset % 2])
    note = lanes.note()
    assert decode_note(Offset(0), encode_note(Offset(0), note, 4096)) == note


def test_what_an_earlier_owner_has_finished_is_skipped() -> None:
    """The records are not handled again, and each commit names them until the position passes them."""
    lanes = PartitionLanes(NAME, Offset(0), [(Offset(1), Offset(3)), (Offset(8), Offset(9))], WIDE)
    assert lanes.finished_ranges() == ((1, 3), (8, 9))
    receive(lanes, "abcd")
    run = start_all(lanes)
    assert offsets(run) == [0, 3]
    assert lanes.finished_ranges() == ((1, 3), (8, 9))
    lanes.finish([run[0]])
    assert (lanes.position, lanes.finished_ranges()) == (3, ((8, 9),))
    lanes.finish([run[1]])
    assert (lanes.position, lanes.finished_ranges()) == (4, ((8, 9),))


@pytest.mark.parametrize(
    ("room", "started"),
    [(RangeRoom(3, 0), [0, 1, 2]), (RangeRoom(0, 2), [0, 1]), (RangeRoom(0, 0), [0])],
)
def test_no_record_starts_for_which_the_text_may_have_no_room(room: RangeRoom, started: list[int]) -> None:
    """Records start within the room in offsets or in records; the record at the position may always start."""
    lanes = new_lanes("abcdef", room=room)
    run = start_all(lanes)
    assert offsets(run) == started
    lanes.finish([run[0]])
    assert lanes.startable is not None


def test_the_note_names_the_hot_key_and_what_holds_the_commit_up() -> None:
    """The hot key is the key with the most unfinished records."""
    lanes = new_lanes("abbbc")
    run = start_all(lanes)
    note = lanes.note()
    assert (note.in_flight, note.since_ms, note.attempts, note.hot_key, note.hot_records) == (5, 0, 1, b"b", 3)
    lanes.finish(run)
    assert lanes.note().in_flight == 2
    assert new_lanes("abc").hot_key() == (None, 0)


def test_a_commit_that_rises_is_not_held_up() -> None:
    """The commit is held up since its position rose last, and not since the record there was received: with a backlog,
    records are old when their turn comes. Between two looks the position rose at the first at the earliest."""
    lanes = new_lanes("abc")
    first, second, third = start_all(lanes)
    lanes.look(9_000)
    assert lanes.held_since_ms == 0
    lanes.finish([first])
    lanes.look(9_010)
    lanes.look(15_000)
    assert lanes.held_since_ms == lanes.note().since_ms == 9_000
    lanes.finish([second])
    assert lanes.held_since_ms == 15_000
    lanes.finish([third])
    assert lanes.held_since_ms is None


def test_a_new_record_holds_nothing_up_before_it_is_received() -> None:
    """After a time without records, the time counts from when the record was received."""
    lanes = PartitionLanes(NAME, Offset(0), (), WIDE)
    lanes.look(0)
    lanes.receive([Received(Offset(0), b"a", 1, None)], True, None, 500)
    lanes.look(501)
    assert lanes.held_since_ms == 500


def test_a_slow_partition_is_paused_when_its_share_is_used_up() -> None:
    """A partition whose records soon have their turn is not paused, unless it holds half of the window."""
    window = RecordWindow(records=12)
    lanes = new_lanes("abcd")
    assert not lanes.is_over_share(window, 3, PATIENCE_MS - 1)
    assert lanes.is_over_share(window, 3, PATIENCE_MS)
    assert not lanes.is_over_share(window, 2, PATIENCE_MS)
    receive(lanes, "ef", 4)
    assert lanes.is_over_share(window, 3, 0)


def test_a_revoked_partition_starts_nothing() -> None:
    """Records that run may finish, and move the position."""
    lanes = new_lanes("ab")
    run = lanes.start(1, 0)
    lanes.revoke()
    assert lanes.startable is None
    lanes.finish(run)
    assert (lanes.position, lanes.running) == (1, 0)


def test_only_keys_are_hot() -> None:
    """If a whole partition is one lane, no key is named; the empty key is a key."""
    lanes = PartitionLanes(NAME, Offset(0), (), WIDE)
    lanes.receive([Received(Offset(offset), b"a", 1, None) for offset in range(3)], False, b"", 0)
    assert lanes.hot_key() == (None, 0)
    keyed = PartitionLanes(NAME, Offset(0), (), WIDE)
    keyed.receive([Received(Offset(offset), b"", 1, None) for offset in range(3)], True, None, 0)
    assert keyed.hot_key() == (b"", 3)
