"""Conversations about groups as administrators see them: ListGroups, DescribeGroups, DeleteGroups."""

from __future__ import annotations

from tests.interop.wire_conversations.group_offsets import commit, part
from tests.interop.wire_conversations.members import Member, wait_for_group
from tests.interop.wire_conversations.talk import Talk, conversation

from klamm.protocol.api import ApiKey
from klamm.protocol.schema.delete_groups_request import DeleteGroupsRequest
from klamm.protocol.schema.describe_groups_request import DescribeGroupsRequest
from klamm.protocol.schema.list_groups_request import ListGroupsRequest

COMMIT = 9


def gather(talk: Talk, group: str) -> tuple[Member, Member]:
    """Makes a stable group with two members."""
    one, two = Member(talk, "one", group, "first"), Member(talk, "two", group)
    one.join()
    one.sync(assignments={one.member_id: b"all"})
    two.begin_join(4)
    two.end_join()
    two.begin_join(4)
    wait_for_group(talk, group, "PreparingRebalance", 2)
    one.join()
    two.end_join()
    one.begin_sync(assignments={one.member_id: b"half", two.member_id: b"rest"})
    two.sync()
    one.end_sync()
    return one, two


@conversation(ApiKey.LIST_GROUPS)
def list_groups(talk: Talk) -> None:
    """Lists groups in several states, with valid and invalid filters."""
    topic = talk.shared_topic("a")
    commit(talk, talk.name("offsets"), (topic, [part(0, 1)]), version=COMMIT)
    gather(talk, talk.name("stable"))
    Member(talk, "three", talk.name("completing")).join(protocol_type="connect")
    Member(talk, "four", talk.name("typeless")).begin_join(4)
    gone = Member(talk, "five", talk.name("empty"))
    gone.join()
    gone.leave()
    talk.ask(ListGroupsRequest())
    if talk.version >= 4:
        for states in (["Stable"], ["stable", "EMPTY"], ["CompletingRebalance"], ["PreparingRebalance"], ["Dead"]):
            talk.ask(ListGroupsRequest(states_filter=states))
        for states in (["Unknown"], ["nonsense"], [""], ["Assigning"], ["Stable", "nonsense"]):
            talk.ask(ListGroupsRequest(states_filter=states))
    if talk.version >= 5:
        for types in (["classic"], ["Classic"], ["consumer"], ["share"], ["streams"], ["unknown"], ["nonsense"], [""]):
            talk.ask(ListGroupsRequest(types_filter=types))
        talk.ask(ListGroupsRequest(states_filter=["Stable"], types_filter=["classic"]))
        talk.ask(ListGroupsRequest(states_filter=["Stable"], types_filter=["consumer"]))


@conversation(ApiKey.DESCRIBE_GROUPS)
def describe_groups(talk: Talk) -> None:
    """Describes a group in each of its states, groups that don't exist, and authorized operations."""
    group = talk.name("g")

    def describe(*names: str, operations: bool = False) -> None:
        talk.ask(DescribeGroupsRequest(groups=list(names), include_authorized_operations=operations))

    describe(group)
    one = Member(talk, "one", group, "first")
    one.join()
    describe(group)
    one.sync(assignments={one.member_id: b"all"})
    describe(group, operations=True)
    two = Member(talk, "two", group)
    two.begin_join(4)
    two.end_join()
    describe(group)
    two.begin_join(4)
    wait_for_group(talk, group, "PreparingRebalance", 2)
    describe(group)
    one.leave()
    two.end_join()
    two.leave()
    describe(group)
    describe(talk.name("unknown"), "", group, group, operations=True)
    describe()


@conversation(ApiKey.DELETE_GROUPS)
def delete_groups(talk: Talk) -> None:
    """Deletes empty groups, a group with members, a group with offsets only, and groups that don't exist."""
    topic = talk.shared_topic("a")
    group, kept = talk.name("g"), talk.name("kept")

    def delete(*names: str) -> None:
        talk.ask(DeleteGroupsRequest(groups_names=list(names)))

    delete(group)
    delete("")
    commit(talk, group, (topic, [part(0, 1)]), version=COMMIT)
    delete(group)
    delete(group)
    one, two = gather(talk, kept)
    delete(kept, talk.name("unknown"), kept)
    one.leave()
    two.leave()
    delete(kept, kept)
    one.heartbeat()
    delete()
