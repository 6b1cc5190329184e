"""Tests that the entries of one decision lead to the same image, in however many commits they arrive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples
from tests.support.steps import at_once

from klamm.metadata.entries import apply, put_broker, put_live
from klamm.metadata.image import EMPTY_IMAGE, MetadataImage, TopicImage
from klamm.metadata.metadata_store import Change, Plan, Versioned
from klamm.metadata.topic_changes import (
    NewPartitions,
    NewTopic,
    TopicRules,
    plan_partition_creation,
    plan_topic_creation,
    plan_topic_deletion,
)
from klamm.protocol.types import BrokerId, TopicId

NAMES = st.sampled_from(["a.b", "a_b", "c"])
COMMANDS = st.one_of(
    st.tuples(st.just("create"), NAMES, st.integers(1, 6)),
    st.tuples(st.just("delete"), NAMES, st.just(0)),
    st.tuples(st.just("widen"), NAMES, st.integers(1, 9)),
)


class _Store:
    """Applies changes to an image, as commits of a store."""

    def __init__(self) -> None:
        self.image = EMPTY_IMAGE
        self.revision = 0

    def commit(self, changes: Sequence[Change]) -> None:
        self.revision += 1
        entries = {
            change.key: None if change.value is None else Versioned(change.value, self.revision, self.revision)
            for change in changes
        }
        self.image = apply(self.image, self.revision, entries)


def _plan(image: MetadataImage, command: tuple[str, str, int], number: int) -> Plan[Any]:
    rules = TopicRules(
        partitions=1,
        replication_factor=1,
        check_configs=lambda configs: None,
        new_topic_id=lambda: TopicId(number.to_bytes(16, "big")),
    )
    kind, name, count = command
    if kind == "create":
        return at_once(plan_topic_creation)(image, [NewTopic(name, partitions=count)], rules)
    if kind == "widen":
        return at_once(plan_partition_creation)(image, [NewPartitions(topic=name, count=count)])
    topic = image.topics.get(name)
    return at_once(plan_topic_deletion)(image, [topic.topic_id] if topic else [])


def _sizes(image: MetadataImage) -> Mapping[str, int]:
    return {name: len(topic.partitions) for name, topic in image.topics.items()}


def _topics(image: MetadataImage) -> Mapping[str, TopicImage]:
    assert image.topics_by_id == {topic.topic_id: topic for topic in image.topics.values()}
    for topic in image.topics.values():
        assert [partition.index for partition in topic.partitions] == list(range(len(topic.partitions)))
    return image.topics


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(COMMANDS, max_size=8), st.data())
def test_any_grouping_leads_to_the_same_image_without_parts_of_a_topic(
    commands: list[tuple[str, str, int]], data: st.DataObject
) -> None:
    """A decision's entries may be written in any groups, and in any order on either side of the commit key. Every
    image in between has all of the decision or nothing of it, and the last is that of one commit."""
    whole, parted = _Store(), _Store()
    for store in (whole, parted):
        store.commit([put_broker(BrokerId(1), {"PLAINTEXT": ("h", 1)}, None), put_live(BrokerId(1), "i")])
    for number, command in enumerate(commands, 1):
        plan = _plan(whole.image, command, number)
        if not plan.changes:
            continue
        before = _sizes(whole.image)
        whole.commit(plan.changes)
        after = _sizes(whole.image)
        index = next(index for index, change in enumerate(plan.changes) if change.key == plan.commit_key)
        order = [
            *data.draw(st.permutations(plan.changes[:index])),
            plan.changes[index],
            *data.draw(st.permutations(plan.changes[index + 1 :])),
        ]
        ends = sorted({*data.draw(st.sets(st.integers(1, len(order)))), len(order)})
        for start, end in zip([0, *ends], ends, strict=False):
            parted.commit(data.draw(st.permutations(order[start:end])))
            assert _sizes(parted.image) == (after if end > index else before)
        assert _topics(parted.image) == _topics(whole.image)
        assert not parted.image.parts
        assert not whole.image.parts


@settings(max_examples=examples(50), deadline=None)
@given(st.integers(1, 6), st.integers(0, 6), st.integers(0, 6))
def test_an_interrupted_change_is_not_seen_in_an_image_from_the_store(count: int, created: int, added: int) -> None:
    """An image that is built from the whole content at once equals the image that grew with the commits."""
    store = _Store()
    store.commit([put_broker(BrokerId(1), {"PLAINTEXT": ("h", 1)}, None), put_live(BrokerId(1), "i")])
    content: dict[str, bytes | None] = {}

    def write(changes: Sequence[Change]) -> None:
        if changes:
            store.commit(changes)
            content.update((change.key, change.value) for change in changes)

    write(_plan(store.image, ("create", "c", count), 1).changes)
    write(_plan(store.image, ("create", "a.b", 6), 2).changes[:created])
    write(_plan(store.image, ("widen", "c", count + 6), 3).changes[:added])
    assert _sizes(store.image) == {"c": count}
    entries = {key: Versioned(value, 1, 1) for key, value in content.items() if value is not None}
    rebuilt = apply(EMPTY_IMAGE, store.revision, entries)
    assert (rebuilt.topics, rebuilt.parts) == (store.image.topics, store.image.parts)
