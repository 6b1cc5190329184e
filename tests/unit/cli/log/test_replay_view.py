"""Tests the text form of coordinator records and groups."""

from __future__ import annotations

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

from klamm.cli.log.replay_view import group_lines, record_words
from klamm.insight.group.coordinator_state import CoordinatorState
from klamm.insight.group.member_names import MemberNames
from klamm.protocol.schema.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from klamm.protocol.schema.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from klamm.protocol.schema.share_group_metadata_key import ShareGroupMetadataKey
from klamm.protocol.schema.share_group_metadata_value import ShareGroupMetadataValue

NAMES = {topic_id: name for name, topic_id in TOPIC_IDS.items()}


class _Replay:
    """The state and the member names after the records so far."""

    def __init__(self) -> None:
        self.state = CoordinatorState(NAMES.__getitem__)
        self.names = MemberNames()

    def words(self, key_and_value: tuple[bytes, bytes | None]) -> str:
        found = self.state.apply(*key_and_value, 0, 0)
        group = self.state.group(GROUP)
        for each in group.members.values() if group is not None else ():
            self.names.add(each.member_id, each.instance_id, each.client_id)
        return record_words(found, group, self.names)

    def lines(self) -> list[str]:
        return list(group_lines(self.state.group(GROUP), self.names))


def test_each_record_of_a_consumer_group_has_its_words() -> None:
    """Each record of a consumer group has a text that uses short member names."""
    replay = _Replay()
    assert replay.words(member("one", subscribed_topic_regex="ord.*", server_assignor="uniform")) == (
        "one subscribes to orders and pattern ord.*, assignor uniform (10.0.0.1)"
    )
    assert replay.lines() == ["no type yet, 1 member, 0 offsets", "one: no assignment yet, is to get nothing"]
    assert replay.words(epoch(2)) == "group epoch 2"
    assert replay.words(target("one", {"orders": [0, 1, 2]})) == "one is to have orders 0-2"
    assert replay.words(targets(1)) == "target of epoch 1"
    assert replay.words(current("one", 1, [0], [3])) == (
        "one has orders 0 at epoch 1, has to give back orders 3, is to get orders 1, 2"
    )
    assert replay.lines() == [
        "consumer, epoch 2, target of epoch 1, 1 member, 0 offsets",
        "one: has orders 0 at epoch 1, has to give back orders 3, is to get orders 1, 2",
    ]
    assert replay.words(target("one", None)) == "one is to have nothing"
    assert replay.words(current("one", None, [])) == "one has nothing any more"
    assert replay.words(member("one", is_gone=True)) == "one is no member any more"
    assert replay.words(targets(None)) == "the target is gone"
    assert replay.words(epoch(None)) == "the consumer group is gone"
    assert replay.lines() == ["nothing is left of the group"]


def test_each_record_of_a_classic_group_has_its_words() -> None:
    """Each record of a classic group and each commit has a text."""
    replay = _Replay()
    assert replay.words(commit(0, 5)) == "orders-0 at 5"
    assert replay.lines() == ["only offsets, 0 members, 1 offset", "offsets: orders-0 5"]
    assert replay.words(classic_group(3, {"one": {"orders": [0, 1]}})) == "generation 3, range, 1 member, leader one"
    assert replay.lines() == [
        "classic, generation 3, range, 1 member, 1 offset",
        "one: orders 0, 1",
        "offsets: orders-0 5",
    ]
    assert replay.words(classic_group(4, {})) == "generation 4, no protocol of consumer, 0 members"
    assert replay.words(commit(0, None)) == "orders-0: the commit is gone"
    assert replay.words(classic_group(0, None)) == "the classic group is gone"


def test_long_lists_of_offsets_are_cut() -> None:
    """A long list of offsets is cut; JSON has all offsets."""
    replay = _Replay()
    for partition in range(30):
        replay.words(commit(partition, 1))
    assert replay.lines()[1].endswith("orders-23 1, and 6 more")


def test_all_other_records_show_what_is_in_them() -> None:
    """Patterns are shown as text, and records of share groups are shown as JSON."""
    replay = _Replay()
    key = ConsumerGroupRegularExpressionKey(group_id=GROUP, regular_expression="ord.*")
    value = ConsumerGroupRegularExpressionValue(topics=["orders", "orders-2"])
    assert replay.words(record(key, value)) == "pattern ord.*: orders and orders-2"
    assert replay.words(record(key, None)) == "pattern ord.*: gone"
    share = ShareGroupMetadataKey(group_id=GROUP)
    assert replay.words(record(share, ShareGroupMetadataValue(epoch=2))) == '{"epoch": 2, "metadata_hash": 0}'
    assert replay.words(record(share, None)) == "gone"
    assert replay.words((b"\x00\x63", None)) == "this klamm knows no records of type 99"
