"""What a commit says about the records beyond its offset: the text in the commit's metadata.

A commit has one offset for each partition: the end of the unbroken run of finished records. Records beyond this offset
may be finished too. The text names them, so that the next owner of the partition does not handle them again. The text
also says what `klamm worker status` shows: how many records are in flight, since when the first one of them is, and
which key has the most records.

The text is `klamm1:`, base64 (RFC 4648, the alphabet for URLs, without padding) and a full stop. The base64 has: a
CRC-32 of the rest, the position, and the fields of `CommitNote` in their order. The position repeats the committed
offset: a tool that moves the offset and keeps the text makes the text invalid, as it should. The full stop is the end
of the text, because librdkafka may append bytes from its memory to a commit's metadata. Any other text reads as no
note.
"""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Final, NamedTuple
from zlib import crc32

from klamm.core.delivery.range_bytes import (
    MalformedRanges,
    OffsetRange,
    append_varint,
    count_offsets,
    read_ranges,
    read_varint,
    write_ranges,
)
from klamm.protocol.types import Millis, Offset

__all__ = ["KEPT_KEY_BYTES", "CommitNote", "RangeRoom", "count_finished", "decode_note", "encode_note"]

_PREFIX: Final = "klamm1:"
_END: Final = "."
_CRC_BYTES: Final = 4
KEPT_KEY_BYTES: Final = 32
"""How many bytes of the hot key a note keeps."""
_MOST_FIXED_BYTES: Final = _CRC_BYTES + 5 * 10 + 2 + KEPT_KEY_BYTES + 1
"""The most bytes of a note without its ranges: five numbers, the key with its length, the form of the ranges."""
_MOST_RUN_BYTES: Final = 2 * 10


class CommitNote(NamedTuple):
    """What a commit says in addition to its offset."""

    finished: tuple[OffsetRange, ...] = ()
    """The finished records beyond the position, in order; ranges do not touch each other."""
    in_flight: int = 0
    """Records that the member has read and not finished."""
    since_ms: Millis = Millis(0)
    """When the member read the record at the position, which holds the commit up."""
    attempts: int = 0
    """How many times the record at the position was begun."""
    hot_key: bytes | None = None
    """The beginning of the key with the most records in flight, if a key has more than one."""
    hot_records: int = 0
    """How many records in flight the hot key has."""


class RangeRoom(NamedTuple):
    """The limits within which any set of finished records fits into the text."""

    offsets: int
    """All finished records fit if each of them is fewer than this many offsets above the position."""
    records: int
    """This many finished records fit, at any distance from the position."""

    @classmethod
    def within(cls, most_characters: int) -> RangeRoom:
        """Returns the room in texts of this length (the broker's `offset.metadata.max.bytes`)."""
        size = (most_characters - len(_PREFIX) - len(_END)) * 3 // 4 - _MOST_FIXED_BYTES
        return cls(max(0, size * 8), max(0, size // _MOST_RUN_BYTES))


def encode_note(position: Offset, note: CommitNote, most_characters: int) -> str:
    """Returns the text of a note; the empty text for a note that says nothing.

    If the text would be too long, it has fewer ranges, from the last one on; with no room at all it is empty.
    """
    if note == CommitNote():
        return ""
    ranges: Sequence[OffsetRange] = note.finished
    while len(text := _text(position, note, ranges)) > most_characters:
        if not ranges:
            return ""
        ranges = ranges[: len(ranges) * 7 // 8]
    return text


def _text(position: Offset, note: CommitNote, ranges: Sequence[OffsetRange]) -> str:
    data = bytearray()
    for number in (position, note.in_flight, note.since_ms, note.attempts, note.hot_records):
        append_varint(data, number)
    data.append(0 if note.hot_key is None else 1)
    if note.hot_key is not None:
        key = note.hot_key[:KEPT_KEY_BYTES]
        append_varint(data, len(key))
        data += key
    data += write_ranges(position, ranges)
    whole = crc32(data).to_bytes(_CRC_BYTES, "big") + data
    return _PREFIX + urlsafe_b64encode(whole).rstrip(b"=").decode("ascii") + _END


def decode_note(position: Offset, text: str | None, end: Offset | None = None) -> CommitNote:
    """Returns the note that a committed offset's metadata has; an empty note if the text is none of ours.

    A text is ours only for the position for which it was written. `end` is the end of the partition's log, if it is
    known: no record beyond it can be finished, so a note that claims this belongs to another log, and is empty.
    """
    try:
        note, ranges = _parts_of(position, text)
        note = note._replace(finished=read_ranges(position, ranges))
    except ValueError:
        return CommitNote()
    if end is not None and note.finished and note.finished[-1][1] > end:
        return CommitNote()
    return note


def count_finished(position: Offset, text: str | None) -> int:
    """Returns how many records beyond the committed offset are finished; 0 if the text is not a worker's note.

    Quicker than `decode_note` if the ranges are bits, as those of long notes usually are. Does not check the end of the
    log.
    """
    try:
        _, ranges = _parts_of(position, text)
        return count_offsets(ranges)
    except ValueError:
        return 0


def _parts_of(position: Offset, text: str | None) -> tuple[CommitNote, bytes]:
    """Returns the note without its ranges, and their bytes; an empty note for a text of others. Raises ValueError."""
    if not text or not text.startswith(_PREFIX):
        return CommitNote(), b""
    coded, end_mark, _ = text[len(_PREFIX) :].partition(_END)
    if not end_mark:
        return CommitNote(), b""
    whole = b64decode(coded + "=" * (-len(coded) % 4), b"-_", validate=True)
    data = whole[_CRC_BYTES:]
    if crc32(data).to_bytes(_CRC_BYTES, "big") != whole[:_CRC_BYTES]:
        raise MalformedRanges("wrong checksum")
    at, numbers = 0, []
    for _ in range(5):
        number, at = read_varint(data, at)
        numbers.append(number)
    if numbers[0] != position:
        raise MalformedRanges("the text belongs to another position")
    hot_key = None
    if data[at : at + 1] == b"\1":
        size, start = read_varint(data, at + 1)
        at = start + size
        hot_key = data[start:at]
    else:
        at += 1
    _, in_flight, since_ms, attempts, hot_records = numbers
    return CommitNote((), in_flight, Millis(since_ms), attempts, hot_key, hot_records), data[at:]
