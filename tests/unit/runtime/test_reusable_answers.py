"""Tests cached answers: which requests get them, how long they are valid, and what must happen before them."""

from __future__ import annotations

import pytest
from tests.unit.runtime.coordinator_world import GROUP, P0, CoordinatorWorld

from klamm.protocol.codec import encode
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.heartbeat_request import HeartbeatRequest
from klamm.protocol.schema.heartbeat_response import HeartbeatResponse
from klamm.protocol.schema.leave_group_request import LeaveGroupRequest, MemberIdentity
from klamm.protocol.types import LeaderEpoch
from klamm.runtime.reusable_answers import LARGEST_REQUEST_BYTES

SAID = b"the first says that it is there"
ALIVE = encode(HeartbeatResponse(), 4)


class Stable:
    """A stable classic group of two members, whose first member has sent one heartbeat."""

    def __init__(self, *, linger_ms: int = 0) -> None:
        self.world = CoordinatorWorld(linger_ms=linger_ms)
        self.ids = self.world.stable_group()
        self.say(SAID)

    def say(self, request_fingerprint: bytes) -> ErrorCode:
        """Sends a heartbeat of the first member with this request fingerprint; returns the error code."""
        request = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=self.ids[0])
        return ErrorCode(
            self.world.now(
                self.world.coordinator.heartbeat(request, self.world.client(4), request_fingerprint)
            ).error_code
        )

    def repeat(self, request_fingerprint: bytes = SAID) -> bytes | None:
        return self.world.coordinator.repeat(request_fingerprint)

    @property
    def kept(self) -> int:
        return len(self.world.coordinator._runtime.reusable_answers)


@pytest.fixture
def stable() -> Stable:
    return Stable()


def test_nothing_is_repeated_without_a_session(stable: Stable) -> None:
    """A broker whose session with the metadata store may be over repeats no answer; the request is decided, and
    refused. The answer stays valid."""
    stable.world.has_session = False
    assert stable.repeat() is None
    assert stable.say(SAID) == ErrorCode.NOT_COORDINATOR
    stable.world.has_session = True
    assert stable.repeat() == ALIVE


def test_what_was_said_before_is_answered_as_before(stable: Stable) -> None:
    """A repeated request gets the cached answer each time, in the version of the request; other requests get none."""
    assert [stable.repeat(), stable.repeat()] == [ALIVE, ALIVE]
    assert stable.repeat(b"the second says that it is there") is None


def test_answer_dies_with_the_leader_epoch(stable: Stable) -> None:
    """A cached answer is dropped when this broker resigns, and when it leads under a new leader epoch."""
    coordinator = stable.world.coordinator
    coordinator.on_leadership(P0, LeaderEpoch(1))
    assert stable.repeat() is None
    assert stable.say(SAID) is ErrorCode.NONE
    assert stable.repeat() == ALIVE
    coordinator.on_resignation(P0)
    assert stable.repeat() is None
    assert stable.kept == 0


def test_words_that_stand_for_nothing_are_not_kept(stable: Stable) -> None:
    """A request without a fingerprint is decided each time, and its answer is not cached."""
    assert stable.say(b"") is ErrorCode.NONE
    assert stable.repeat(b"") is None


def test_session_begins_anew_with_each_answer(stable: Stable) -> None:
    """A cached answer restarts the session timeout. A member that misses it is removed with its cached answer."""
    for _ in range(5):
        stable.world.timers.advance(9_000)
        assert stable.repeat() == ALIVE
        assert stable.world.heartbeat(stable.ids[1], 1) is ErrorCode.NONE
    stable.world.timers.advance(9_999)
    assert stable.kept == 1
    stable.world.timers.advance(1)
    assert (stable.repeat(), stable.kept) == (None, 0)
    assert stable.say(SAID) is ErrorCode.UNKNOWN_MEMBER_ID


def test_rebalance_is_not_slept_through(stable: Stable) -> None:
    """During a rebalance the cached answer is not given, so that the member learns of the rebalance."""
    leave = LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=stable.ids[1])])
    stable.world.coordinator.leave_group(leave, stable.world.client(5))
    assert stable.repeat() is None
    assert stable.say(SAID) is ErrorCode.REBALANCE_IN_PROGRESS
    assert stable.repeat() is None


def test_member_that_leaves_is_answered_no_more(stable: Stable) -> None:
    """When a member leaves, its cached answer is removed."""
    leave = LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=stable.ids[0])])
    stable.world.coordinator.leave_group(leave, stable.world.client(5))
    assert (stable.repeat(), stable.kept) == (None, 0)
    assert stable.say(SAID) is ErrorCode.UNKNOWN_MEMBER_ID


def test_one_answer_is_kept_of_each_member(stable: Stable) -> None:
    """One answer is cached for each member, the latest, however many different requests the member sends."""
    words = [b"%d" % number for number in range(100)]
    for request_fingerprint in words:
        assert stable.say(request_fingerprint) is ErrorCode.NONE
    assert stable.kept == 1
    assert (stable.repeat(words[-1]), stable.repeat(words[-2])) == (ALIVE, None)


def test_long_requests_are_not_kept(stable: Stable) -> None:
    """Answers to requests above `LARGEST_REQUEST_BYTES` are not cached, because clients choose the request length."""
    longest = b"x" * LARGEST_REQUEST_BYTES
    stable.say(longest + b"x")
    assert stable.repeat(longest + b"x") is None
    stable.say(longest)
    assert stable.repeat(longest) == ALIVE


def test_nothing_is_repeated_without_leadership(stable: Stable) -> None:
    """When leadership is lost, cached answers are removed, and requests get NOT_COORDINATOR."""
    stable.world.coordinator.on_resignation(P0)
    assert (stable.repeat(), stable.kept) == (None, 0)
    assert stable.say(SAID) is ErrorCode.NOT_COORDINATOR


def test_nothing_is_repeated_after_the_end(stable: Stable) -> None:
    """A stopped coordinator gives no cached answer."""
    stable.world.coordinator.stop()
    assert (stable.repeat(), stable.kept) == (None, 0)


def test_what_is_not_committed_comes_first(stable: Stable) -> None:
    """No cached answer is given while records are uncommitted, because an answer waits for all earlier records."""
    stable.world.log.holds_high_watermark = True
    commit = stable.world.commit(3, group_id="another")
    assert stable.repeat() is None
    stable.world.log.commit(P0)
    assert not stable.world.is_waiting(commit)
    assert stable.repeat() == ALIVE


def test_what_lingers_comes_first() -> None:
    """No cached answer is given while commits linger: the heartbeat is decided, which writes the lingering commits."""
    stable = Stable(linger_ms=5)
    stable.world.commit(2, group_id="another")
    stable.world.timers.advance(5)
    commit = stable.world.commit(3, group_id="another")
    assert stable.world.is_waiting(commit)
    assert stable.repeat() is None
    assert stable.say(SAID) is ErrorCode.NONE
    assert not stable.world.is_waiting(commit)
    assert stable.repeat() == ALIVE
