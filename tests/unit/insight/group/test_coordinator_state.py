"""Tests the state that results from the records of a coordinator."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.insight.coordinator_records import (
    GROUP,
    TOPIC_IDS,
    classic_group,
    commit,
    current,
    epoch,
    member,
    record,
    target,
    targets,
)

from klamm.core.group.group_kinds import GROUP_KINDS
from klamm.insight.group.coordinator_state import KINDS, CoordinatorState, ReplayedRecord, unknown_topic
from klamm.insight.group.replayed_group import ReplayedGroup
from klamm.protocol.coordinator_records import encode_record_key, group_record_classes
from klamm.protocol.schema.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from klamm.protocol.schema.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from klamm.protocol.schema.legacy_offset_commit_key import LegacyOffsetCommitKey
from klamm.protocol.schema.legacy_offset_commit_value import LegacyOffsetCommitValue
from klamm.protocol.schema.record_types import GROUP_RECORDS
from klamm.protocol.schema.share_group_member_metadata_key import ShareGroupMemberMetadataKey
from klamm.protocol.schema.share_group_member_metadata_value import ShareGroupMemberMetadataValue
from klamm.protocol.schema.share_group_metadata_key import ShareGroupMetadataKey
from klamm.protocol.schema.share_group_metadata_value import ShareGroupMetadataValue

NAMES = {topic_id: name for name, topic_id in TOPIC_IDS.items()}


def _state() -> CoordinatorState:
    return CoordinatorState(lambda topic_id: NAMES.get(topic_id) or unknown_topic(topic_id))


def _after(*records: tuple[bytes, bytes | None]) -> ReplayedGroup:
    state = _state()
    for number, (key, value) in enumerate(records):
        state.apply(key, value, 1_000 + number, number)
    group = state.group(GROUP)
    assert group is not None
    return group


def _is_gone_after(*records: tuple[bytes, bytes | None]) -> bool:
    state = _state()
    for offset, (key, value) in enumerate(records):
        state.apply(key, value, 0, offset)
    return state.group(GROUP) is None and GROUP not in state.group_ids()


def test_the_last_commit_counts_and_a_tombstone_ends_it() -> None:
    """The last commit of a partition counts, and a tombstone removes the commit; a group with offsets only has no
    type."""
    group = _after(commit(0, 5), commit(1, 3), commit(0, 9), commit(1, None))
    assert {place: committed.offset for place, committed in group.offsets.items()} == {("orders", 0): 9}
    assert group.offsets["orders", 0].commit_ms == 5_000
    assert group.kind is None
    assert _is_gone_after(commit(0, 5), commit(0, None))


def test_commits_of_long_ago_count_as_well() -> None:
    """Commits of Kafka's record type 0 count as well."""
    key = LegacyOffsetCommitKey(group=GROUP, topic="orders", partition=2)
    value = LegacyOffsetCommitValue(offset=7, metadata="", commit_timestamp=1)
    group = _after(record(key, value))
    assert group.offsets["orders", 2].offset == 7


def test_a_classic_group_is_what_its_last_record_says() -> None:
    """The last record of a classic group gives its members with their subscriptions and assignments."""
    group = _after(
        classic_group(1, {"one": {"orders": [0, 1]}}), classic_group(2, {"one": {"orders": [0]}, "two": {"bills": [3]}})
    )
    assert (group.kind, group.epoch, group.assignor, group.leader) == ("classic", 2, "range", "one")
    assert group.assigned_ms == 1_001
    assert {name: each.assigned for name, each in group.members.items()} == {
        "one-0": {("orders", 0)},
        "two-0": {("bills", 3)},
    }
    one = group.members["one-0"]
    assert (one.topics, one.rebalance_timeout_ms, one.session_timeout_ms) == (("orders",), 60_000, 10_000)
    assert _after(classic_group(3, {})).members == {}
    assert _is_gone_after(classic_group(1, {"one": {}}), classic_group(0, None))


def test_a_consumer_group_goes_through_a_rebalance() -> None:
    """The records of a rebalance give each member's target, its current assignment and its pending revocations."""
    begin = [member("one"), epoch(1), target("one", {"orders": [0, 1]}), targets(1), current("one", 1, [0, 1])]
    group = _after(*begin)
    assert (group.kind, group.epoch, group.assignment_epoch) == ("consumer", 1, 1)
    change = [member("two"), epoch(2), target("one", {"orders": [0]}), target("two", {"orders": [1]}), targets(2)]
    group = _after(*begin, *change, current("one", 1, [0], [1], state=1), current("two", 2, [], state=2))
    one, two = group.members["one-0"], group.members["two-0"]
    first, second = frozenset({("orders", 0)}), frozenset({("orders", 1)})
    assert (one.assigned, one.pending_revocation, one.target) == (first, second, first)
    assert (one.epoch, one.state, two.epoch, two.state) == (1, "unrevoked partitions", 2, "unreleased partitions")
    assert (two.assigned, two.target) == (frozenset(), second)
    assert (group.assigned_ms, one.changed_ms) == (1_009, 1_010)
    gone = [current("two", None, []), target("two", None), member("two", is_gone=True)]
    assert list(_after(*begin, *change, *gone).members) == ["one-0"]
    rest = [current("one", None, []), target("one", None), member("one", is_gone=True), targets(None), epoch(None)]
    assert _is_gone_after(*begin, *rest)


def test_tombstones_bring_nobody_back() -> None:
    """Tombstones create no group or member; after compaction, a tombstone can be left without its earlier record."""
    assert _is_gone_after(current("one", None, []), target("one", None), member("one", is_gone=True))


def test_a_group_may_change_its_type() -> None:
    """A group can change its type; the tombstone of the old type may come before or after the first record of the new
    type."""
    group = _after(classic_group(3, {"one": {"orders": [0]}}), classic_group(0, None), member("one"), epoch(4))
    assert (group.kind, group.epoch, list(group.members)) == ("consumer", 4, ["one-0"])
    group = _after(member("one"), epoch(4), epoch(None), classic_group(5, {"one": {"orders": [0]}}), targets(None))
    assert (group.kind, group.epoch) == ("classic", 5)


def test_patterns_are_kept() -> None:
    """A pattern is stored with its matching topics."""
    key = ConsumerGroupRegularExpressionKey(group_id=GROUP, regular_expression="ord.*")
    value = ConsumerGroupRegularExpressionValue(topics=["orders"], version=1, timestamp=1)
    assert _after(record(key, value)).patterns == {"ord.*": ("orders",)}
    assert _is_gone_after(record(key, value), record(key, None))


def test_share_groups_are_known_by_their_records_names() -> None:
    """The state of a share group is the last value of each key, under the names of its records."""
    group_key = ShareGroupMetadataKey(group_id=GROUP)
    member_key = ShareGroupMemberMetadataKey(group_id=GROUP, member_id="one-0")
    member_value = ShareGroupMemberMetadataValue(client_id="one", client_host="/10.0.0.1")
    records = [record(group_key, ShareGroupMetadataValue(epoch=2)), record(member_key, member_value)]
    group = _after(*records)
    assert (group.kind, group.epoch) == ("share", 2)
    assert list(group.others) == ["ShareGroupMetadata", "ShareGroupMemberMetadata one-0"]
    assert group.others["ShareGroupMemberMetadata one-0"]["client_id"] == "one"
    assert _is_gone_after(*records, record(member_key, None), record(group_key, None))


def test_the_records_of_every_kind_of_group_are_known() -> None:
    """The table has the kinds that the coordinator serves, and a state can apply each record type of the schema."""
    assert [kind.store for kind in KINDS] == [kind.store for kind in GROUP_KINDS]
    for record_type in GROUP_RECORDS:
        classes = group_record_classes(record_type)
        assert classes is not None
        key_class: Any = classes[0]
        has_group = "group" in key_class.__slots__
        key = key_class(group=GROUP) if has_group else key_class(group_id=GROUP)
        assert _state().apply(encode_record_key(key), None, 0, 0).complaint is None


def test_a_topic_that_was_deleted_has_only_its_id() -> None:
    """A deleted topic is shown by its id, in Kafka's notation."""
    group = _after(member("one"), epoch(1), target("one", {"gone": [0]}))
    assert group.members["one-0"].target == {("topic id AAAAAAAAAAAAAAAAAAAAAA", 0)}


def test_what_is_not_understood_changes_nothing() -> None:
    """A record with an unknown type or version, or with invalid bytes, changes no state and gives a complaint."""
    state = _state()
    key, _ = commit(0, 5)

    def complaint(key: bytes, value: bytes | None) -> str | None:
        found: ReplayedRecord = state.apply(key, value, 0, 0)
        assert found.key is None
        return found.complaint

    assert complaint(b"\x00\x63rest", b"") == "this klamm knows no records of type 99"
    assert complaint(key, b"\x00\x63rest") == "OffsetCommitValue has versions 0 to 4, not 99"
    assert complaint(b"", None) == "a coordinator record too short to say its type or version"
    assert complaint(key[:-1], None) is not None
    assert list(state.group_ids()) == []


def test_the_state_is_plain_data() -> None:
    """The state can be encoded as JSON, with offsets by topic and partition, and with each member's assignment and
    target."""
    group = _after(member("one"), epoch(1), target("one", {"orders": [0, 1]}), current("one", 1, [0]), commit(0, 5))
    shown = json.loads(json.dumps(group.plain()))
    assert shown["offsets"] == {"orders": {"0": 5}}
    assert shown["members"][0]["assigned"] == {"orders": [0]}
    assert shown["members"][0]["target"] == {"orders": [0, 1]}
    assert (shown["group"], shown["type"], shown["epoch"]) == (GROUP, "consumer", 1)
