"""A query's planning process as a member of its group: waits until it owns the group, and stops when it loses the
group.

One thread keeps the membership (joins, heartbeats). The query's own thread checks whether it may plan, and commits. The
right to plan is a lease: it ends one session timeout after the sending of the last request that succeeded. Until then
the coordinator can't have given the group to another member. It waits one session timeout for a silent member, and the
rebalance timeout, which is the same here, for a member that does not rejoin.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection
from dataclasses import replace
from enum import Enum
from typing import Final

from klamm.client.cluster import Cluster
from klamm.client.config import ClientConfig
from klamm.client.errors import ConnectionFailed, GaveUp, RequestRefused
from klamm.client.group_membership import REBALANCE_ALLOWANCE_MS, ClassicMember, GroupProtocol, Joined, MemberEpoch
from klamm.errors import KlammError
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import TopicPartition
from klamm.session_clock import session_time
from klamm.spark.source.errors import QueryFenced
from klamm.spark.source.group.coordinator_trouble import CoordinatorTrouble
from klamm.spark.source.group.exclusive_assignor import ASSIGNOR, MemberData, assign, encode_member_data, owner_in
from klamm.spark.source.group.group_successor import describe_successor

__all__ = ["QueryMember"]

_logger = logging.getLogger(__name__)

_PROTOCOL_TYPE: Final = "consumer"
# A process that ends must not wait for long; a member that has not left expires after its session timeout.
_LEAVE_PATIENCE_MS: Final = 5_000
_NO_MEMBER: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)
_LEFT: Final = (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID)
_COME_AGAIN: Final = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)


class _State(Enum):
    JOINING = "has not been told yet who owns the group"
    STANDING_BY = "stands by"
    OWNER = "owns the group"
    OVER = "is no member any more"


class QueryMember:
    """The membership of one query. Call `start` first, and all methods from the query's thread."""

    def __init__(
        self,
        config: ClientConfig,
        group_id: str,
        own_data: MemberData,
        *,
        session_timeout_ms: int,
        heartbeat_interval_ms: int,
    ) -> None:
        self.group_id = group_id
        self._config = config
        self._own_data = own_data
        self._session_s = session_timeout_ms / 1000
        self._interval_s = heartbeat_interval_ms / 1000
        self._member = ClassicMember(
            config, group_id, GroupProtocol(_PROTOCOL_TYPE, ASSIGNOR, session_timeout_ms, session_timeout_ms)
        )
        self._changed = threading.Condition()
        self._wake = threading.Event()
        self._state = _State.JOINING
        self._must_join = True
        self._confirmed_at = float("-inf")
        self._trouble = "it has not been reached yet"
        self._told_trouble = CoordinatorTrouble()
        self._failure: KlammError | None = None
        self._leaving = False
        self._has_left = threading.Event()
        self._said_that_it_waits = False
        self._thread = threading.Thread(target=self._run, name=f"member of {group_id}", daemon=True)

    def start(self) -> None:
        """Starts the thread that joins the group and keeps the membership."""
        self._thread.start()

    def await_ownership(self, patience_s: float = float("inf")) -> bool:
        """Waits up to `patience_s`, by default without limit, until this query owns the group. Returns whether it does.

        Raises `RequestRefused` if the group does not accept this member, for example because it has members of another
        kind.
        """
        deadline = session_time() + patience_s
        with self._changed:
            while not self._may_plan():
                if self._failure is not None:
                    raise self._failure
                if session_time() >= deadline:
                    return False
                if self._state is _State.STANDING_BY and not self._said_that_it_waits:
                    _logger.warning(
                        "another query owns group %r: this one stands by, and takes over when that one ends",
                        self.group_id,
                    )
                    self._said_that_it_waits = True
                self._changed.wait(min(self._interval_s, patience_s))
        return True

    def ensure_owner(self) -> None:
        """Waits until the coordinator has confirmed that this query owns the group.

        Raises `QueryFenced`, which names the new owner, if the query no longer owns it. Raises `GaveUp` if there is no
        confirmation for `default.api.timeout.ms`, or for a little more than a session timeout if that is longer.
        """
        # A rebalance waits one session timeout for members that died; that is not a failure of the coordinator.
        patience_s = max(self._config.default_api_timeout_ms / 1000, self._session_s + REBALANCE_ALLOWANCE_MS / 1000)
        deadline = session_time() + patience_s
        with self._changed:
            while not self._may_plan():
                if self._failure is not None:
                    raise self._failure
                if session_time() > deadline:
                    raise GaveUp(
                        f"whether this query still owns group {self.group_id!r} could not be learned in "
                        f"{patience_s:g} s (default.api.timeout.ms, or session.timeout.ms and a little more): "
                        f"{self._trouble}"
                    )
                self._wake.set()
                self._changed.wait(self._interval_s)

    def epoch(self) -> MemberEpoch:
        """Returns the generation and member id for the next commit. Raises what `ensure_owner` raises."""
        self.ensure_owner()
        return MemberEpoch(self._member.generation_id, self._member.member_id)

    def refused(self, code: ErrorCode) -> None:
        """Ends the lease after a refused commit: the thread sends a heartbeat, and `ensure_owner` waits for its
        result."""
        with self._changed:
            self._confirmed_at = float("-inf")
            self._trouble = code.name
            self._wake.set()

    def reads(self, partitions: Collection[TopicPartition]) -> None:
        """Updates the partitions that the group shows as read by the query: rejoins if they have changed."""
        if self._own_data.partitions != frozenset(partitions):
            with self._changed:
                self._own_data = replace(self._own_data, partitions=frozenset(partitions))
                self._must_join = True
                self._wake.set()

    def leave(self, reason: str) -> None:
        """Leaves the group, so that a standby member becomes the owner at once. Logs a warning instead of raising
        `KlammError`."""
        with self._changed:
            self._leaving = True
            self._state = _State.OVER
            self._wake.set()
        # Also after a fence: a query that lost the group to another may still be a member.
        try:
            code = self._member.leave(reason, _LEAVE_PATIENCE_MS)
        except KlammError as error:
            _logger.warning("did not leave group %r, which will miss this query: %s", self.group_id, error)
        else:
            if code not in _LEFT:
                trouble = code.name
                _logger.warning("did not leave group %r, which will miss this query: %s", self.group_id, trouble)
        finally:
            self._member.close()
            self._has_left.set()

    def _may_plan(self) -> bool:
        return self._state is _State.OWNER and session_time() < self._confirmed_at + self._session_s

    def _run(self) -> None:
        try:
            while not self._leaving:
                try:
                    self._turn()
                except ConnectionFailed as error:
                    self._pause(str(error))
                    self._wake.set()
        except KlammError as error:
            self._fail(error)
        except Exception as error:
            if not self._leaving:  # else `leave` has closed the connections
                self._fail(KlammError(f"the membership of group {self.group_id!r} broke: {error!r}"))
        finally:
            if self._leaving:
                # `leave` closes only the connections that exist then. A heartbeat in flight may open one more.
                self._has_left.wait()
                self._member.close()

    def _turn(self) -> None:
        """Joins if necessary, else waits for the heartbeat interval and sends a heartbeat."""
        if self._must_join:
            self._join()
            return
        self._wake.wait(self._interval_s)
        self._wake.clear()
        if self._leaving or self._must_join:
            return
        sent_at = session_time()
        code = self._member.heartbeat()
        if code is ErrorCode.NONE:
            self._confirm(sent_at, self._state)
        else:
            self._respond(code)

    def _join(self) -> None:
        sent_at = session_time()
        with self._changed:
            # A change after this moment needs another rebalance.
            self._must_join = False
            own_data = self._own_data
        try:
            joined = self._member.join(encode_member_data(own_data))
            if isinstance(joined, ErrorCode):
                self._must_join = True
                self._respond(joined)
                return
            self._note_generation(joined)
            sent_at = session_time()
            assignment = self._member.sync(assign(joined.members) if joined.is_leader else {})
            if isinstance(assignment, ErrorCode):
                self._must_join = True
                self._respond(assignment)
                return
        except BaseException:
            self._must_join = True
            raise
        self._take(assignment, sent_at)

    def _note_generation(self, joined: Joined) -> None:
        if self._own_data.since_generation < 0:
            with self._changed:
                self._own_data = replace(self._own_data, since_generation=joined.generation_id)

    def _take(self, assignment: bytes, sent_at: float) -> None:
        owner = owner_in(assignment)
        if owner is None:
            raise RequestRefused(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"group {self.group_id!r} has consumers of the new protocol (KIP-848) and can't be owned by one query: "
                "give the query a group of its own",
            )
        if owner == self._member.member_id:
            self._confirm(sent_at, _State.OWNER)
        elif self._state is _State.OWNER:
            self._fence()
        else:
            self._confirm(sent_at, _State.STANDING_BY)

    def _respond(self, code: ErrorCode) -> None:
        """Handles the error code of a response."""
        if code in _NO_MEMBER:
            if self._state is _State.OWNER:
                self._fence()
            # A standby member joins again as a new member.
            self._member.forget_itself()
            with self._changed:
                self._own_data = replace(self._own_data, since_generation=-1)
                self._state = _State.JOINING
            self._must_join = True
        elif code in _COME_AGAIN:
            self._must_join = True
        elif code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            raise RequestRefused(
                code,
                f"group {self.group_id!r} has members that are no queries with klamm.group.mode=member: stop them, or "
                "give the query a group of its own",
            )
        elif code.retriable:
            self._pause(code.name)
        else:
            raise RequestRefused(code, f"the coordinator does not take the query into group {self.group_id!r}")

    def _confirm(self, sent_at: float, state: _State) -> None:
        lasted_s = self._told_trouble.end(session_time())
        if lasted_s is not None:
            # At the same level as the first report: by default Python shows warnings only.
            _logger.warning("the coordinator of group %r is there again, after %.1f s", self.group_id, lasted_s)
        with self._changed:
            if self._state is not _State.OVER:
                self._state = state
                self._confirmed_at = sent_at
                self._changed.notify_all()

    def _fence(self) -> None:
        with self._changed:
            self._state = _State.OVER
        who = describe_successor(Cluster(self._config), self.group_id)
        raise QueryFenced(
            f"this query no longer owns group {self.group_id!r}: {who}. It plans no further batch and commits nothing; "
            "a batch that was under way may still reach its sink"
        )

    def _fail(self, error: KlammError) -> None:
        with self._changed:
            self._state = _State.OVER
            self._failure = error
            self._changed.notify_all()

    def _pause(self, trouble: str) -> None:
        self._trouble = trouble
        # A query that ends closes its own connections, so errors are expected.
        if not self._leaving and self._told_trouble.meet(trouble, session_time()):
            _logger.warning(
                "the coordinator of group %r can't be had, and is asked again and again: %s. Do the brokers run, can "
                "this machine reach them, and has each partition of __consumer_offsets a leader?",
                self.group_id,
                trouble,
            )
        time.sleep(self._config.retry_backoff_ms / 1000)
