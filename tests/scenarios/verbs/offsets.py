"""Requests for committed offsets: OffsetCommit, OffsetFetch, OffsetDelete.

A: commit events:0-2=10 metadata=x epoch=previous retention=1ms v=9    (admin commits without a member)
A: fetch events:0-2 epoch=... stable=yes v=9                           (without partitions: all of them)
admin: delete-offsets events:0-2
"""

from __future__ import annotations

from collections.abc import Iterable

from tests.scenarios.states import show_error
from tests.scenarios.values import Arguments, milliseconds, partitions, show_partitions
from tests.scenarios.world import ADMIN, Ask, Member, World

from klamm.protocol.message import Message
from klamm.protocol.schema.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.schema.offset_commit_response import OffsetCommitResponse
from klamm.protocol.schema.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from klamm.protocol.schema.offset_delete_response import OffsetDeleteResponse
from klamm.protocol.schema.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from klamm.protocol.schema.offset_fetch_response import OffsetFetchResponse

__all__ = ["commit", "delete_offsets", "fetch"]

COMMIT, FETCH = 9, 9
BY_ID = 10
"""First version of OffsetCommit and OffsetFetch that names topics by id."""


def commit(member: Member, arguments: Arguments) -> Ask:
    """Builds an OffsetCommit request of a member, or of `admin` for a group without members."""
    world = member.world
    version = arguments.number("v", COMMIT)
    metadata = arguments.given("metadata")
    if metadata is not None and metadata.startswith("x*"):
        metadata = "x" * int(metadata.removeprefix("x*"))
    topics = []
    for word in arguments.words():
        owned, _, offset = word.partition("=")
        for topic, indexes in partitions(owned).items():
            parts = [
                OffsetCommitRequestPartition(
                    partition_index=index, committed_offset=int(offset), committed_metadata=metadata or ""
                )
                for index in indexes
            ]
            by_id = version >= BY_ID
            topics.append(
                OffsetCommitRequestTopic(
                    name="" if by_id else world.long(topic),
                    topic_id=world.topic_id(topic) if by_id else bytes(16),
                    partitions=parts,
                )
            )
    given_id, retention, instance_id = arguments.given("id"), arguments.given("retention"), arguments.get("instance")
    request = OffsetCommitRequest(
        group_id=world.group_id,
        generation_id_or_member_epoch=arguments.number("epoch", arguments.number("generation", member.generation)),
        member_id=member.member_id if given_id is None else world.id_of(given_id),
        group_instance_id=instance_id if version >= 7 else None,
        retention_time_ms=-1 if retention is None else milliseconds(retention),
        topics=topics,
    )

    def tell(response: Message) -> str:
        assert isinstance(response, OffsetCommitResponse)
        return _tell_codes(
            (_topic(world, each.name, each.topic_id), part.partition_index, part.error_code)
            for each in response.topics
            for part in each.partitions
        )

    return Ask(request, version, tell)


def _topic(world: World, name: str, topic_id: bytes) -> str:
    return world.short(name) if name else world.topic_name(topic_id)


def _tell_codes(codes: Iterable[tuple[str, int, int]]) -> str:
    by_code: dict[str, dict[str, list[int]]] = {}
    for topic, index, code in codes:
        by_code.setdefault(show_error(code), {}).setdefault(topic, []).append(index)
    return ", ".join(f"{show_partitions(owned)} {code}" for code, owned in sorted(by_code.items())) or "nothing"


def fetch(member: Member, arguments: Arguments) -> Ask:
    """Builds an OffsetFetch request with the member's id and epoch (KIP-848), unless the step sets them."""
    world = member.world
    version = arguments.number("v", FETCH)
    words = arguments.words()
    asked = {topic: indexes for word in words for topic, indexes in partitions(word).items()}
    by_id = version >= BY_ID
    topics = [
        OffsetFetchRequestTopics(
            name="" if by_id else world.long(topic),
            topic_id=world.topic_id(topic) if by_id else bytes(16),
            partition_indexes=indexes,
        )
        for topic, indexes in asked.items()
    ]
    given_id = arguments.given("id")
    member_id = None if member.name == ADMIN else member.member_id if given_id is None else world.id_of(given_id)
    group = OffsetFetchRequestGroup(
        group_id=world.group_id,
        member_id=member_id,
        member_epoch=arguments.number("epoch", -1 if member_id is None else member.generation),
        topics=topics if words else None,
    )
    stable = arguments.given("stable") == "yes"
    if version >= 8:
        request = OffsetFetchRequest(groups=[group], require_stable=stable)
    else:
        one = [OffsetFetchRequestTopic(name=world.long(topic), partition_indexes=each) for topic, each in asked.items()]
        request = OffsetFetchRequest(group_id=world.group_id, topics=one if words else None, require_stable=stable)

    def tell(response: Message) -> str:
        assert isinstance(response, OffsetFetchResponse)
        single = version < 8
        error = response.error_code if single else response.groups[0].error_code
        if error:
            return show_error(error)
        found = []
        for each in response.topics if single else response.groups[0].topics:
            topic = _topic(world, each.name, getattr(each, "topic_id", b""))
            for part in each.partitions:
                text = f"{topic}:{part.partition_index}={part.committed_offset}"
                text += f" {part.metadata!r}" if part.metadata else ""
                text += f" leader epoch {part.committed_leader_epoch}" if part.committed_leader_epoch >= 0 else ""
                found.append(text + (f" {show_error(part.error_code)}" if part.error_code else ""))
        return ", ".join(sorted(found)) or "nothing"

    return Ask(request, version, tell)


def delete_offsets(member: Member, arguments: Arguments) -> Ask:
    """Builds an OffsetDelete request."""
    world = member.world
    asked = {topic: indexes for word in arguments.words() for topic, indexes in partitions(word).items()}
    request = OffsetDeleteRequest(
        group_id=world.group_id,
        topics=[
            OffsetDeleteRequestTopic(
                name=world.long(topic),
                partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes],
            )
            for topic, indexes in asked.items()
        ],
    )

    def tell(response: Message) -> str:
        assert isinstance(response, OffsetDeleteResponse)
        if response.error_code:
            return show_error(response.error_code)
        return _tell_codes(
            (world.short(each.name), part.partition_index, part.error_code)
            for each in response.topics
            for part in each.partitions
        )

    return Ask(request, 0, tell)
