"""Tests that differences between two values are reported by name, in few lines, and with the same text in each run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pytest
from tests.simulation.checkers.group_views import StoreView, view
from tests.simulation.difference import difference
from tests.simulation.notes import in_words

from klamm.core.coordinator.shard_contract import CoordinatorRecord
from klamm.core.group.classic.group_metadata import GroupMetadata, MemberMetadata, group_metadata_record
from klamm.core.group.consumer.consumer_group_records import epoch_record
from klamm.core.group.consumer.consumer_store import ConsumerStore
from klamm.core.group.consumer.member import ConsumerGroupMember
from klamm.core.group.group_kinds import empty_store
from klamm.core.group.offsets.offset_records import offset_commit_record
from klamm.core.txn.transaction_state import TransactionState
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.heartbeat_response import HeartbeatResponse
from klamm.protocol.types import Generation, LeaderEpoch, Millis, Offset, PartitionIndex, ProducerId, TopicId

ROOT = Path(__file__).parents[2]
TOPIC = TopicId(bytes(range(16)))


@dataclass(frozen=True)
class Point:
    """A dataclass."""

    x: object
    y: object = None


class Pair(NamedTuple):
    """A named tuple."""

    name: str
    value: object


class Slots:
    """An object with slots, without its own text representation."""

    __slots__ = ("left", "right")

    def __init__(self, left: object, right: object = None) -> None:
        self.left = left
        self.right = right


class Plain:
    """An object with attributes only."""

    def __init__(self, other: object) -> None:
        self.other = other


@pytest.mark.parametrize(
    ("found", "expected", "told"),
    [
        (1, 1, "no difference"),
        (1, 2, "klamm 1, replay 2"),
        ("", None, "klamm '', replay None"),
        (Point(1, 2), Point(1, 3), "y: klamm 2, replay 3"),
        (Pair("a", {"k": 1}), Pair("a", {"k": 2}), "value · k: klamm 1, replay 2"),
        (Slots(1), Slots(2), "left: klamm 1, replay 2"),
        (Plain(Point(1)), Plain(Point(2)), "other · x: klamm 1, replay 2"),
        ({"a": 1}, {"b": 1}, "a: klamm 1, replay nothing\nb: klamm nothing, replay 1"),
        ({"c", "a", "b"}, {"a"}, "only klamm has {b, c}"),
        (frozenset({1}), {2}, "only klamm has {1}, only replay has {2}"),
        ([1, 2, 3], [1, 5, 3], "#1: klamm 2, replay 5"),
        ([1, 2], [1], "klamm [1, 2], replay [1]"),
        ((1, Point(1)), (1, Point(2)), "#1 · x: klamm 1, replay 2"),
        (
            [Pair("a", 1), Pair("b", 2)],
            [Pair("b", 3)],
            "a: klamm Pair(name=a, value=1), replay nothing\nb · value: klamm 2, replay 3",
        ),
        (MappingProxyType({1: 2}), {1: 3}, "1: klamm 2, replay 3"),
        (Point(1), Pair("a", 1), "klamm Point(x=1), replay Pair(name=a, value=1)"),
        (Point(TransactionState.ONGOING), Point(TransactionState.EMPTY), "x: klamm ongoing, replay empty"),
        (HeartbeatResponse(error_code=27), HeartbeatResponse(error_code=0), "error_code: klamm 27, replay 0"),
        (bytes(16), bytes(15) + b"1", f"klamm {bytes(16)!r}, replay {bytes(15) + b'1'!r}"),
    ],
)
def test_differences_by_kind(found: object, expected: object, told: str) -> None:
    """Two values of the same kind are compared part by part, other values as a whole."""
    assert difference(found, expected) == told


def test_the_sides_have_names() -> None:
    """The report uses the names of the two sides that the caller gives."""
    assert difference(1, 2, names=("read", "written")) == "read 1, written 2"


def test_fields_can_be_left_out() -> None:
    """Fields in `skipped` are not compared."""
    assert difference(Point(1, 2), Point(2, 3), skipped=["Point.y"]) == "x: klamm 1, replay 2"


def test_reports_are_bounded() -> None:
    """A report has at most `lines` differences, and shows only the different part of a long value."""
    report = difference(dict.fromkeys(range(100), 0), dict.fromkeys(range(100), 1), lines=3)
    assert report.splitlines()[-1] == "and 97 more differences"
    assert len(report.splitlines()) == 4

    (line,) = difference(b"\xff" * 10_000 + b"\x01", b"\xff" * 10_000 + b"\x02").splitlines()
    assert line == f"klamm …{'f' * 19}01, replay …{'f' * 19}02"

    (line,) = difference("a" * 10_000, "b" * 10_000).splitlines()
    assert len(line) < 400


def store(*, epoch: int = 3, assigned: tuple[int, ...] = (0, 1), offset: int = 7) -> StoreView:
    """Returns the view of a store with a consumer group, a classic group, and offsets."""
    found = empty_store()
    records: list[CoordinatorRecord] = [epoch_record("orders", epoch, 0)]
    member = MemberMetadata("B", None, "client", "/10.0.0.1", 1_000, 1_000, b"", b"")
    metadata = GroupMetadata(Generation(4), "consumer", "range", "B", Millis(5), (member,))
    records.append(group_metadata_record("clicks", metadata))
    records.append(
        offset_commit_record(
            "clicks",
            "events",
            PartitionIndex(2),
            offset=Offset(offset),
            leader_epoch=LeaderEpoch(0),
            metadata="",
            commit_timestamp_ms=Millis(1),
            expire_timestamp_ms=None,
            topic_id=TOPIC,
        )
    )
    for number, record in enumerate(records):
        found.replay(Offset(number), ProducerId(-1), record)
    partitions = {TOPIC: {PartitionIndex(index): 1 for index in assigned}}
    found.of(ConsumerStore).groups["orders"].put_member(ConsumerGroupMember("A", member_epoch=2, assigned=partitions))
    return view(found)


def test_stores_differ_in_named_groups_members_and_partitions() -> None:
    """The report on two stores names the place of each difference, and contains nothing else."""
    found, expected = store(), store(epoch=4, assigned=(0, 5), offset=8)
    metadata = expected.groups["clicks"]
    expected.groups["clicks"] = metadata._replace(members=(replace_client(metadata.members[0]),))

    report = difference(found, expected, skipped=["ConsumerGroup.index"])

    assert report.splitlines() == [
        "consumer group orders · epoch: klamm 3, replay 4",
        "consumer group orders · member A · assigned · 000102 · 1: klamm 1, replay nothing",
        "consumer group orders · member A · assigned · 000102 · 5: klamm nothing, replay 1",
        "consumer group orders · owners of topic 000102 · 1: klamm A, replay nothing",
        "consumer group orders · owners of topic 000102 · 5: klamm nothing, replay A",
        "group clicks · member B · client_id: klamm client, replay another",
        "offsets of group clicks · events · 2 · offset: klamm 7, replay 8",
    ]


def replace_client(member: MemberMetadata) -> MemberMetadata:
    return member._replace(client_id="another")


def local() -> None:
    """Stands for any function."""


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Slots(Plain(Slots(1))), "Slots(left=Plain(other=Slots(left=1, right=None)), right=None)"),
        (lambda: local, "local"),
        (lambda: Slots, "Slots"),
        (lambda: [Point(1, local)], "[Point(x=1, y=local)]"),
        (lambda: {"b": object(), "a": ErrorCode.NONE}, "{a: NONE, b: object()}"),
        (lambda: Plain(Offset(7)), "Plain(other=7)"),
        (lambda: iter([]), "list_iterator()"),
        (lambda: b"key-1", "b'key-1'"),
    ],
)
def test_words_hold_no_address(make: Callable[[], object], words: str) -> None:
    """The text of an object never contains its address."""
    assert str(in_words(make())) == words


def test_an_object_that_holds_itself_is_told_once() -> None:
    """An object that contains itself appears once in its text, so the text is finite."""
    itself = Slots(1)
    itself.right = [itself]
    assert in_words(itself) == "Slots(left=1, right=[Slots(…)])"


STABLE = """
from tests.simulation.difference import difference
from tests.simulation.test_difference import Plain, Slots, store
names = [f"name-{number}" for number in range(50)]
print(difference({frozenset(names): set(names), "b": Plain(set(names))}, {"b": Slots(set(names)), "c": set(names[:7])}))
print(difference(set(names), set(names[7:])))
print(difference(store(), store(epoch=9, assigned=(4,))))
"""


def test_reports_are_the_same_whatever_the_hashes_of_strings_are() -> None:
    """A report is the same for all hashes of strings, so a failure is the same in each run."""
    told = {
        subprocess.run(
            [sys.executable, "-c", STABLE],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "1", "4711")
    }
    assert len(told) == 1
    assert "0x" not in told.pop()
