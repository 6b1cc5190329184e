"""Tests of the text in a commit's metadata."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.core.delivery.commit_text import CommitNote, RangeRoom, count_finished, decode_note, encode_note
from klamm.protocol.types import Millis, Offset

NOTE = CommitNote(((Offset(12), Offset(15)), (Offset(20), Offset(21))), 9, Millis(1_700_000_000_000), 3, b"hot", 5)


def test_a_note_is_read_as_it_was_written() -> None:
    """All fields come back, for the same position."""
    text = encode_note(Offset(10), NOTE, 4096)
    assert text.startswith("klamm1:")
    assert decode_note(Offset(10), text) == NOTE


def test_finished_records_are_counted_without_their_ranges() -> None:
    """The number is that of the ranges, whichever form they have."""
    text = encode_note(Offset(10), NOTE, 4096)
    assert count_finished(Offset(10), text) == sum(end - first for first, end in NOTE.finished)
    scattered = CommitNote(finished=tuple((Offset(offset), Offset(offset + 1)) for offset in range(12, 2000, 2)))
    assert count_finished(Offset(10), encode_note(Offset(10), scattered, 4096)) == 994


def test_a_note_that_says_nothing_is_the_empty_text() -> None:
    """A member that holds nothing and has no ranges commits as any consumer does."""
    assert encode_note(Offset(10), CommitNote(), 4096) == ""


def test_bytes_after_the_text_are_ignored() -> None:
    """librdkafka may append bytes from its memory, which may be letters of the text's alphabet."""
    text = encode_note(Offset(10), NOTE, 4096)
    assert decode_note(Offset(10), text + "abc\ufffd") == NOTE


@pytest.mark.parametrize("text", [None, "", "spark", "klamm1:", "klamm1:.", "klamm1:%%%%.", "klamm2:AAAA."])
def test_other_texts_are_no_note(text: str | None) -> None:
    """The metadata of other programs says nothing."""
    assert decode_note(Offset(10), text) == CommitNote()
    assert count_finished(Offset(10), text) == 0


def test_a_text_belongs_to_its_position_and_to_its_log() -> None:
    """A note is empty at another offset, if it is damaged or cut, and if it names records beyond the log's end."""
    text = encode_note(Offset(10), NOTE, 4096)
    assert decode_note(Offset(11), text) == CommitNote()
    assert count_finished(Offset(11), text) == 0
    assert decode_note(Offset(10), text[:-1]) == CommitNote()
    assert decode_note(Offset(10), text[:9] + "B" + text[10:]) == CommitNote()
    assert decode_note(Offset(10), text, Offset(20)) == CommitNote()
    assert decode_note(Offset(10), text, Offset(21)) == NOTE


@pytest.mark.parametrize("characters", [0, 20, 60, 100])
def test_a_long_text_has_fewer_ranges(characters: int) -> None:
    """The text is never longer than the broker accepts; the last ranges are left out first."""
    ranges = tuple((Offset(at), Offset(at + 1)) for at in range(12, 10_000, 7))
    text = encode_note(Offset(10), NOTE._replace(finished=ranges), characters)
    assert len(text) <= characters
    kept = decode_note(Offset(10), text).finished
    assert kept == ranges[: len(kept)]


@given(st.sets(st.integers(1, 700), max_size=600), st.sampled_from([150, 300, 4096]))
def test_records_within_the_room_always_fit(beyond: set[int], characters: int) -> None:
    """Whichever records within the room are finished, the text names all of them."""
    room = RangeRoom.within(characters)
    offsets = sorted(offset for offset in beyond if offset < room.offsets)
    ranges: list[tuple[Offset, Offset]] = []
    for offset in offsets:
        if ranges and ranges[-1][1] == offset:
            ranges[-1] = (ranges[-1][0], Offset(offset + 1))
        else:
            ranges.append((Offset(offset), Offset(offset + 1)))
    note = NOTE._replace(finished=tuple(ranges), hot_key=b"k" * 32, in_flight=1 << 40)
    assert decode_note(Offset(0), encode_note(Offset(0), note, characters)).finished == tuple(ranges)
