"""A member of a classic group, in cases that a real coordinator shows only by chance."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.scripted_broker import ScriptedBroker

from klamm.client.config import ClientConfig
from klamm.client.errors import GaveUp
from klamm.client.group_membership import ClassicMember, GroupProtocol
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.leave_group_request import LeaveGroupRequest
from klamm.protocol.schema.leave_group_response import LeaveGroupResponse


@pytest.fixture
def member(config: ClientConfig) -> Iterator[ClassicMember]:
    """Returns a joined member whose coordinator is the scripted broker."""
    joined = ClassicMember(config, "g", GroupProtocol("consumer", "any", 10_000, 10_000))
    joined.member_id = "m"
    yield joined
    joined.close()


@pytest.mark.parametrize(("code", "lookups"), [(15, 2), (16, 2), (14, 1)])
def test_who_leaves_follows_the_coordinator(
    broker: ScriptedBroker, member: ClassicMember, code: int, lookups: int
) -> None:
    """A member that leaves looks for a coordinator that has moved, and waits for one that loads its groups; otherwise
    the group would wait for its session timeout."""
    broker.on(LeaveGroupRequest, lambda _: LeaveGroupResponse(error_code=code), lambda _: LeaveGroupResponse())

    assert member.leave("done", 2_000) is ErrorCode.NONE
    assert [key for key, _ in broker.seen].count(10) == lookups


def test_who_leaves_looks_for_a_coordinator_that_has_stopped(broker: ScriptedBroker, member: ClassicMember) -> None:
    """A member whose coordinator closes the connection, because it stops, leaves at its successor."""
    broker.on(LeaveGroupRequest, lambda _: None, lambda _: LeaveGroupResponse())

    assert member.leave("done", 2_000) is ErrorCode.NONE
    assert [key for key, _ in broker.seen].count(10) == 2


def test_who_leaves_a_cluster_that_is_gone_is_told_so(member: ClassicMember, broker: ScriptedBroker) -> None:
    """Leaving a group without any broker gives up after its timeout, with the reason."""
    broker.on(LeaveGroupRequest, lambda _: None)

    with pytest.raises(GaveUp, match=r"leave group 'g'.*closed the connection|broke"):
        member.leave("done", 50)


def test_who_leaves_does_not_wait_for_ever(broker: ScriptedBroker, member: ClassicMember) -> None:
    """Leaving a group gives up after its timeout and returns the error code."""
    broker.on(LeaveGroupRequest, lambda _: LeaveGroupResponse(error_code=16))

    assert member.leave("done", 50) is ErrorCode.NOT_COORDINATOR
