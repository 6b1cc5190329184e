"""Conversations about the offsets of groups: OffsetCommit, OffsetFetch, OffsetDelete."""

from __future__ import annotations

from typing import Any

from tests.interop.wire_conversations.members import Member, subscription, wait_for_group
from tests.interop.wire_conversations.peer import Topic
from tests.interop.wire_conversations.talk import Talk, conversation

from klamm.protocol.api import ApiKey
from klamm.protocol.schema.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.schema.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from klamm.protocol.schema.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

STRANGE = Topic("wire-strange", b"\x07" * 16)  # type: ignore[arg-type]  # a test's id
COMMIT, FETCH = 9, 9
"""Versions in conversations about other APIs: the last versions with topic names."""


def part(index: int, offset: int, metadata: str | None = "", epoch: int = -1) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=index, committed_offset=offset, committed_leader_epoch=epoch, committed_metadata=metadata
    )


def commit(
    talk: Talk,
    group: str,
    *topics: tuple[Topic, list[OffsetCommitRequestPartition]],
    member: Member | None = None,
    version: int | None = None,
    **fields: Any,
) -> None:
    if member is not None:
        fields.setdefault("member_id", member.member_id)
        fields.setdefault("generation_id_or_member_epoch", member.generation)
        fields.setdefault("group_instance_id", member.instance)
    asked = [
        OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)
        for topic, partitions in topics
    ]
    talk.ask(OffsetCommitRequest(group_id=group, topics=asked, **fields), version)


def fetch(
    talk: Talk,
    group: str,
    topics: list[tuple[Topic, list[int]]] | None,
    *more: OffsetFetchRequestGroup,
    version: int | None = None,
    **fields: Any,
) -> None:
    by_group = [
        OffsetFetchRequestTopics(name=topic.name, topic_id=topic.topic_id, partition_indexes=indexes)
        for topic, indexes in topics or ()
    ]
    single = [OffsetFetchRequestTopic(name=topic.name, partition_indexes=indexes) for topic, indexes in topics or ()]
    stable = fields.pop("require_stable", False)
    first = OffsetFetchRequestGroup(group_id=group, topics=None if topics is None else by_group, **fields)
    request = OffsetFetchRequest(
        group_id=group, topics=None if topics is None else single, groups=[first, *more], require_stable=stable
    )
    talk.ask(request, version)


def shared(talk: Talk) -> tuple[Topic, Topic]:
    return talk.shared_topic("a", 3), talk.shared_topic("b")


@conversation(ApiKey.OFFSET_COMMIT)
def commit_without_members(talk: Talk) -> None:
    """Commits valid and unusual offsets, unknown topics and too long metadata to a group without members."""
    one, two = shared(talk)
    group = talk.name("g")
    commit(talk, group, (one, [part(0, 5, "note", 0), part(1, 0, None, 7)]), (two, [part(0, 9)]))
    fetch(talk, group, None, version=FETCH)
    commit(talk, group, (one, [part(0, -1), part(1, -5), part(2, 2**62, epoch=-7)]))
    commit(talk, group, (one, [part(9, 1), part(0, 6), part(-1, 1)]), (STRANGE, [part(0, 1)]))
    commit(talk, group, (one, [part(0, 7, "x" * 4096), part(1, 8, "x" * 4097)]))
    commit(talk, group, (one, [part(0, 1), part(0, 2)]), (one, [part(1, 3)]))
    commit(talk, group, (STRANGE, [part(0, 1), part(1, 1)]))
    commit(talk, group)
    commit(talk, group, (one, []))
    fetch(talk, group, None, version=FETCH)


@conversation(ApiKey.OFFSET_COMMIT)
def commit_as_who_is_no_member(talk: Talk) -> None:
    """Commits with generations and member ids to groups without members, and to groups without a name."""
    one, _ = shared(talk)
    group = talk.name("g")
    offset = (one, [part(0, 5)])
    commit(talk, group, offset, generation_id_or_member_epoch=3, member_id="nobody")
    commit(talk, group, offset, generation_id_or_member_epoch=3)
    commit(talk, group, offset, member_id="nobody")
    commit(talk, "", offset)
    commit(talk, group, offset, generation_id_or_member_epoch=-5)
    commit(talk, group, offset)
    commit(talk, group, offset, generation_id_or_member_epoch=0)
    commit(talk, group, offset, member_id="nobody")
    if talk.version >= 7:
        commit(talk, group, offset, group_instance_id="nobody")
    if 2 <= talk.version <= 4:
        commit(talk, group, offset, retention_time_ms=0)
        commit(talk, group, offset, retention_time_ms=-1)
        commit(talk, group, offset, retention_time_ms=3_600_000)
    fetch(talk, group, None, version=FETCH)


@conversation(ApiKey.OFFSET_COMMIT)
def commit_as_a_member(talk: Talk) -> None:
    """Commits in every state of the group, with old generations, as an unknown member, and after leaving."""
    one, _ = shared(talk)
    group = talk.name("g")
    member, other = Member(talk, "one", group), Member(talk, "two", group)
    member.join()
    commit(talk, group, (one, [part(0, 1)]), member=member)
    member.sync(assignments={member.member_id: b"all"})
    commit(talk, group, (one, [part(0, 2)]), member=member)
    commit(talk, group, (one, [part(0, 3)]), member=member, generation_id_or_member_epoch=7)
    commit(talk, group, (one, [part(0, 3)]), member=member, generation_id_or_member_epoch=-1)
    commit(talk, group, (one, [part(0, 3)]), member=member, member_id="nobody")
    commit(talk, group, (one, [part(0, 3)]))
    other.begin_join(4)
    other.end_join()
    commit(talk, group, (one, [part(0, 3)]), member=member, member_id=other.member_id)
    other.begin_join(4)
    wait_for_group(talk, group, "PreparingRebalance", 2)
    commit(talk, group, (one, [part(0, 4)]), member=member)
    commit(talk, group, (one, [part(0, 5), part(9, 1), part(1, 1, "x" * 5000)]), member=member)
    old = member.generation
    member.join()
    other.end_join()
    commit(talk, group, (one, [part(0, 6)]), member=member)
    commit(talk, group, (one, [part(0, 6)]), member=member, generation_id_or_member_epoch=old)
    member.begin_sync(assignments={member.member_id: b"half", other.member_id: b"rest"})
    other.sync()
    member.end_sync()
    commit(talk, group, (one, [part(0, 7)]), member=other)
    other.leave()
    member.leave()
    commit(talk, group, (one, [part(0, 8)]), member=member)
    commit(talk, group, (one, [part(0, 9)]))
    fetch(talk, group, None, version=FETCH)


@conversation(ApiKey.OFFSET_COMMIT, since=7)
def commit_as_a_static_member(talk: Talk) -> None:
    """Commits with instance ids and member ids that don't match."""
    one, _ = shared(talk)
    group = talk.name("g")
    member = Member(talk, "one", group, "first")
    member.join()
    member.sync(assignments={member.member_id: b"all"})
    commit(talk, group, (one, [part(0, 1)]), member=member)
    commit(talk, group, (one, [part(0, 2)]), member=member, member_id="another")
    commit(talk, group, (one, [part(0, 2)]), member=member, group_instance_id="unknown")
    commit(talk, group, (one, [part(0, 2)]), member=member, group_instance_id=None)
    commit(talk, group, (one, [part(0, 3)]), member=member, generation_id_or_member_epoch=9, member_id="another")


@conversation(ApiKey.OFFSET_FETCH)
def fetch_offsets(talk: Talk) -> None:
    """Fetches offsets of groups with and without offsets: of all partitions, some, none, and unknown ones."""
    one, two = shared(talk)
    group = talk.name("g")
    commit(talk, group, (one, [part(0, 5, "note", 0), part(2, 7)]), (two, [part(0, 9, None)]), version=COMMIT)
    for name in (group, talk.name("unknown"), ""):
        for stable in (False, True):
            fetch(talk, name, [(one, [0, 1, 2, 9, -1]), (two, [0])], require_stable=stable)
            fetch(talk, name, [(STRANGE, [0, 1]), (one, [2])], require_stable=stable)
            fetch(talk, name, [], require_stable=stable)
            fetch(talk, name, [(one, [])], require_stable=stable)
            fetch(talk, name, [(one, [0, 0]), (one, [1])], require_stable=stable)
            if talk.version >= 2:
                fetch(talk, name, None, require_stable=stable)


@conversation(ApiKey.OFFSET_FETCH, since=8)
def fetch_offsets_of_several_groups(talk: Talk) -> None:
    """Fetches offsets of several groups in a request, of a group twice, and of no group."""
    one, two = shared(talk)
    groups = [talk.name("g"), talk.name("h")]
    for offset, name in enumerate(groups):
        commit(talk, name, (one, [part(0, offset)]), version=COMMIT)

    def of(name: str, *topics: Topic) -> OffsetFetchRequestGroup:
        wanted = [
            OffsetFetchRequestTopics(name=topic.name, topic_id=topic.topic_id, partition_indexes=[0])
            for topic in topics
        ]
        return OffsetFetchRequestGroup(group_id=name, topics=wanted or None)

    fetch(talk, groups[0], [(one, [0])], of(groups[1], one, two), of(talk.name("unknown"), one), of("", one))
    fetch(talk, groups[1], None, of(groups[0]), of(groups[1], STRANGE))
    talk.ask(OffsetFetchRequest(groups=[]))


@conversation(ApiKey.OFFSET_FETCH, since=9)
def fetch_offsets_as_a_member(talk: Talk) -> None:
    """Fetches offsets with member ids and epochs, which classic groups ignore."""
    one, _ = shared(talk)
    group = talk.name("g")
    member = Member(talk, "one", group)
    member.join()
    member.sync(assignments={member.member_id: b"all"})
    commit(talk, group, (one, [part(0, 5)]), member=member, version=COMMIT)
    for member_id, epoch in (
        (member.member_id, 1),
        (member.member_id, 9),
        ("nobody", 1),
        (None, -1),
        (None, 5),
        ("", 0),
    ):
        fetch(talk, group, [(one, [0])], member_id=member_id, member_epoch=epoch)


@conversation(ApiKey.OFFSET_DELETE)
def delete_offsets(talk: Talk) -> None:
    """Deletes offsets of a group without members, of a group with subscriptions, and of a group that doesn't exist."""
    one, two = shared(talk)
    group = talk.name("g")

    def delete(name: str, *topics: tuple[str, list[int]]) -> None:
        asked = [
            OffsetDeleteRequestTopic(
                name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
            )
            for topic, indexes in topics
        ]
        talk.ask(OffsetDeleteRequest(group_id=name, topics=asked))

    commit(talk, group, (one, [part(0, 1), part(1, 2), part(2, 3)]), (two, [part(0, 4)]), version=COMMIT)
    delete(group, (one.name, [0]))
    delete(group, (one.name, [0, 1, 9]), ("wire-strange", [0]), (two.name, [0]))
    delete(group, ("wire-strange", [0]))
    delete(group, (one.name, []))
    delete(group)
    delete(talk.name("unknown"), (one.name, [0]))
    delete("", (one.name, [0]))
    fetch(talk, group, None, version=FETCH)
    subscribed = talk.name("h")
    member = Member(talk, "one", subscribed)
    commit(talk, subscribed, (one, [part(0, 1)]), (two, [part(0, 2)]), version=COMMIT)
    protocols = {"range": subscription("", one.name)}
    member.join(protocols=protocols)
    delete(subscribed, (one.name, [0]), (two.name, [0]))
    member.sync(assignments={member.member_id: b"all"})
    delete(subscribed, (one.name, [0, 9]), ("wire-strange", [0]))
    member.leave()
    delete(subscribed, (one.name, [0]))
    other = talk.name("i")
    connector = Member(talk, "connector", other)
    connector.join(protocol_type="connect")
    delete(other, (one.name, [0]))
