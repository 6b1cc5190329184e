"""Simulated consumer clients of a classic group, whose next request depends on the last answer.

Each client is one consumer process. A client joins, syncs, sends heartbeats and commits offsets of the partitions that
it owns. Error codes make it rejoin, start over with an empty member id, or, when fenced, stop. A client may also crash
and restart; a restart keeps only the instance id.
"""

from __future__ import annotations

from enum import Enum

from tests.unit.core.group.shard_driver import ShardDriver, subscription

from klamm.core.coordinator.shard_contract import Ticket
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.join_group_response import JoinGroupResponse
from klamm.protocol.schema.sync_group_response import SyncGroupResponse

__all__ = ["PARTITIONS", "Client", "ClientState"]

PARTITIONS = 6
SESSION_MS = 10_000
STATIC_SESSION_MS = 45_000
"""Longer than a rebalance, so that static members have time to restart."""
REBALANCE_MS = 30_000


class ClientState(Enum):
    """The state of a client, which decides what the client does next."""

    OUT = "has to join"
    JOINING = "waits for the generation"
    JOINED = "has to sync"
    SYNCING = "waits for its assignment"
    STABLE = "owns what it was assigned"
    CRASHED = "does nothing"


class Client:
    """One consumer. `version` is the version of its JoinGroup requests; below 4 it joins without a member id first."""

    def __init__(self, name: str, *, instance: str | None = None, version: int = 9) -> None:
        self.name = name
        self.instance = instance
        self.version = version
        self.state = ClientState.OUT
        self.member_id = ""
        self.generation = -1
        self.member_ids: list[str] = []
        """All members of the generation, if this client is the leader."""
        self.owned: frozenset[int] = frozenset()
        self.ticket: Ticket | None = None
        self.metadata = subscription("events")
        self.former: list[tuple[str, int]] = []
        """Former member ids, each with its generation."""

    def __repr__(self) -> str:
        return f"{self.name}({self.state.name}, {self.member_id!r}, {self.generation})"

    # Requests

    def join(self, driver: ShardDriver) -> None:
        """Sends a JoinGroup request, and gives up all owned partitions."""
        self.owned = frozenset()
        self.state = ClientState.JOINING
        self.ticket = driver.join(
            self.member_id,
            instance=self.instance,
            protocols=[("range", self.metadata)],
            session_timeout_ms=SESSION_MS if self.instance is None else STATIC_SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            version=self.version,
            client_id=self.name,
        )

    def sync(self, driver: ShardDriver) -> None:
        """Sends a SyncGroup request; a leader assigns the partitions round robin."""
        shares: dict[str, bytes] = {}
        if self.member_ids:
            dealt: dict[str, list[int]] = {member_id: [] for member_id in self.member_ids}
            for index in range(PARTITIONS):
                dealt[self.member_ids[index % len(self.member_ids)]].append(index)
            shares = {member_id: bytes(partitions) for member_id, partitions in dealt.items()}
        self.state = ClientState.SYNCING
        self.ticket = driver.sync(self.member_id, self.generation, shares, instance=self.instance)

    def heartbeat(self, driver: ShardDriver) -> None:
        """Sends a heartbeat, and acts on the error code of the answer."""
        code = driver.heartbeat(self.member_id, self.generation, instance=self.instance)
        if code is not None and code is not ErrorCode.NONE:
            self._react(code)

    def commit(self, driver: ShardDriver, partition: int, offset: int) -> ErrorCode | None:
        """Commits an offset of a partition."""
        return driver.commit(
            offset, member_id=self.member_id, generation=self.generation, instance=self.instance, partition=partition
        )

    def leave(self, driver: ShardDriver) -> None:
        """Stops the client; a dynamic member sends LeaveGroup first."""
        if self.instance is None and self.member_id:
            driver.leave((self.member_id, None))
        self.crash()

    def crash(self) -> None:
        """Stops the client without a request."""
        self._remember()
        self.state = ClientState.CRASHED
        self.owned = frozenset()
        self.ticket = None

    def restart(self) -> None:
        """Starts the client again; only the instance id is kept."""
        self.state = ClientState.OUT
        self.member_id, self.generation = "", -1

    # Answers

    def listen(self, driver: ShardDriver) -> None:
        """Handles the answer to the pending request, if it has arrived."""
        if self.ticket is None or self.ticket in driver.parked:
            return
        answer = driver.answers[self.ticket]
        self.ticket = None
        if isinstance(answer, JoinGroupResponse):
            self._hear_join(answer)
        elif isinstance(answer, SyncGroupResponse):
            self._hear_sync(answer)
        else:
            assert isinstance(answer, ErrorCode)
            self._react(answer)

    def lose_connection(self) -> None:
        """Drops the pending request, so that the client joins again."""
        if self.ticket is not None:
            self.ticket = None
            self.state = ClientState.OUT

    def _hear_join(self, answer: JoinGroupResponse) -> None:
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.NONE:
            self._remember()
            self.member_id, self.generation = answer.member_id, answer.generation_id
            self.member_ids = [] if answer.skip_assignment else [member.member_id for member in answer.members]
            self.state = ClientState.JOINED
        elif code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            self.state = ClientState.OUT
        else:
            self._react(code)

    def _hear_sync(self, answer: SyncGroupResponse) -> None:
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.NONE:
            self.owned = frozenset(answer.assignment)
            self.state = ClientState.STABLE
        else:
            self._react(code)

    def _react(self, code: ErrorCode) -> None:
        if code is ErrorCode.FENCED_INSTANCE_ID:
            self.crash()
            return
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self._remember()
            self.member_id, self.generation = "", -1
            self.owned = frozenset()
        self.state = ClientState.OUT

    def _remember(self) -> None:
        if self.member_id:
            self.former.append((self.member_id, self.generation))

    # Steps

    def go_on(self, driver: ShardDriver) -> None:
        """Does the next step of a client in its state."""
        self.listen(driver)
        if self.state is ClientState.OUT:
            self.join(driver)
        elif self.state is ClientState.JOINED:
            self.sync(driver)
        elif self.state is ClientState.STABLE:
            self.heartbeat(driver)
        self.listen(driver)
