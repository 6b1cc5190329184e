"""A member of a classic group, in cases that a real coordinator shows only by chance."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.scripted_broker import ScriptedBroker

from klamm.client.config import ClientConfig
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


@pytest.mark.parametrize("code", [15, 16])
def test_who_leaves_follows_the_coordinator(broker: ScriptedBroker, member: ClassicMember, code: int) -> None:
    """A member that leaves looks for a coordinator that has moved; otherwise the group would wait for its session
    timeout."""
    broker.on(LeaveGroupRequest, lambda _: LeaveGroupResponse(error_code=code), lambda _: LeaveGroupResponse())

    assert member.leave("done", 2_000) is ErrorCode.NONE
    assert [key for key, _ in broker.seen].count(10) == 2


def test_who_leaves_does_not_wait_for_ever(broker: ScriptedBroker, member: ClassicMember) -> None:
    """Leaving a group gives up after its timeout and returns the error code."""
    broker.on(LeaveGroupRequest, lambda _: LeaveGroupResponse(error_code=16))

    assert member.leave("done", 50) is ErrorCode.NOT_COORDINATOR
