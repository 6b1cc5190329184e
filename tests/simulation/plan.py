"""What a seed decides before the world begins: the participants, the settings, and the possible faults.

Not every fault occurs in every world: each seed switches some kinds of trouble off, so that both rare combinations and
single faults occur ("swarm testing").
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum

from tests.simulation.loop import EventLoop

__all__ = ["LEDGER_GROUPS", "GroupKind", "GroupPlan", "MemberPlan", "Plan", "ProducerPlan", "Trouble", "make_plan"]

LEDGER_GROUPS = ("ledger-0", "ledger-1")
"""The groups to which transactional producers commit. They have no members, and are on different partitions if there
are two.
"""


class GroupKind(Enum):
    """The protocol of a group's members."""

    EAGER = "eager"
    COOPERATIVE = "cooperative"
    CONSUMER = "consumer"
    MIXED = "mixed"
    """Members change from the classic protocol to the consumer protocol and back, one by one."""


CLASSIC_KINDS = (GroupKind.EAGER, GroupKind.COOPERATIVE)
_REGEXES = ("topic-.*", "topic-[01]", "topic-2|topic-0")


class Trouble(Enum):
    """The kinds of faults."""

    MEMBER_CRASHES = "member crashes"
    MEMBER_STALLS = "member stalls"
    MEMBER_LEAVES = "member leaves"
    MEMBER_IS_SLOW = "member is slow"
    MEMBER_RESUBSCRIBES = "member resubscribes"
    MEMBER_HAS_TWIN = "member has a twin"
    MEMBER_MIGRATES = "member migrates"
    ZOMBIES = "zombies"
    ADMINISTRATOR = "administrator"
    SLOW_ASSIGNMENTS = "slow assignment"
    HELD_ASSIGNMENTS = "held assignment"
    LATE_COMMITS = "late commit"
    BROKER_CRASHES = "broker crashes"
    BROKER_STALLS = "broker stalls"
    COORDINATOR_MOVES = "coordinator moves"
    SLOW_REPLICAS = "slow replicas"
    APPEND_ERRORS = "append errors"
    FULL_DISK = "full disk"
    FAILED_SYNC = "failed sync"
    SLOW_READS = "slow reads"
    COMPACTION = "compaction"
    CLOCK_JUMPS = "clock jumps"
    TOPICS_CHANGE = "topics change"
    BROKEN_CONNECTIONS = "broken connections"
    LOST_MESSAGES = "lost messages"
    LATE_MESSAGES = "late messages"
    REPEATED_MESSAGES = "repeated messages"
    CUT_NETWORK = "cut network"
    PRODUCER_CRASHES = "producer crashes"
    PRODUCER_STALLS = "producer stalls"
    PRODUCER_ZOMBIES = "zombies of producers"


@dataclass(frozen=True, slots=True)
class MemberPlan:
    """One consumer process."""

    name: str
    group_id: str
    instance_id: str | None
    topics: tuple[str, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    heartbeat_interval_ms: int
    poll_interval_ms: int
    commit_interval_ms: int
    commit_version: int
    rack: str | None
    assignor: str | None = None
    """The assignor that a consumer group's member requests."""
    regex: str | None = None
    """The regular expression that a consumer group's member subscribes to, instead of topic names."""
    heartbeat_version: int = 1

    def matches(self, topic: str) -> bool:
        """Returns whether the regular expression matches the topic."""
        return self.regex is not None and re.fullmatch(self.regex, topic) is not None


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """One group."""

    group_id: str
    kind: GroupKind
    classic_kind: GroupKind
    """The kind of the members that use the classic protocol."""
    members: tuple[MemberPlan, ...]


@dataclass(frozen=True, slots=True)
class ProducerPlan:
    """One transactional producer."""

    transactional_id: str
    is_version_2: bool
    timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One world."""

    broker_count: int
    has_racks: bool
    partition_count: int
    replication_ms: tuple[int, int]
    max_batch_bytes: int
    encodes: bool
    initial_rebalance_delay_ms: int
    offsets_retention_ms: int
    rebalance_batch_ms: int
    commit_linger_ms: int
    assignment_interval_ms: int
    looks_per_step: int
    topics: dict[str, int] = field(default_factory=dict)
    groups: tuple[GroupPlan, ...] = ()
    has_independent_reader: bool = False
    producers: tuple[ProducerPlan, ...] = ()
    troubles: frozenset[Trouble] = frozenset()
    trouble_interval_ms: int = 0
    trouble_ends_ms: int = 0


def make_plan(loop: EventLoop) -> Plan:
    """Returns the plan of a seed; the random generator must be unused."""
    random = loop.random
    troubles = frozenset(trouble for trouble in Trouble if random.random() < 0.4)
    topics = {f"topic-{index}": loop.between(1, 5) for index in range(loop.between(1, 3))}
    is_replicated = loop.chance(0.7)
    has_racks = loop.chance(0.3)
    group_count = 1 if loop.chance(0.6) else 2
    # If topics are deleted and created again, only topic ids identify the topic of a commit.
    commit_version = 10 if Trouble.TOPICS_CHANGE in troubles else random.choice((9, 10))
    groups = tuple(_group(loop, f"group-{index}", tuple(topics), commit_version) for index in range(group_count))
    producers = _producers(loop) if loop.chance(0.3) else ()
    return Plan(
        broker_count=loop.between(2, 3) if is_replicated else 1,
        has_racks=has_racks,
        partition_count=loop.between(1, 2),
        replication_ms=random.choice(((1, 5), (1, 60), (5, 500)))
        if is_replicated
        else random.choice(((0, 0), (1, 30))),
        max_batch_bytes=random.choice((8_192, 1_048_588)),
        encodes=loop.chance(0.15),
        initial_rebalance_delay_ms=random.choice((0, 500, 3_000)),
        # The offsets of a ledger must not expire: a part of the ledger would be missing then.
        offsets_retention_ms=random.choice((10_000, 30_000, 604_800_000)) if not producers else 604_800_000,
        rebalance_batch_ms=random.choice((0, 0, 500)),
        commit_linger_ms=20 if Trouble.LATE_COMMITS in troubles else random.choice((-1, -1, 0, 20)),
        assignment_interval_ms=random.choice((0, 1_000)),
        looks_per_step=random.choice((1, 3, 500)),
        topics=topics,
        groups=groups,
        has_independent_reader=loop.chance(0.3),
        producers=producers,
        troubles=troubles,
        trouble_interval_ms=random.choice((300, 1_000, 2_500)),
        trouble_ends_ms=random.choice((15_000, 30_000, 60_000)),
    )


def _producers(loop: EventLoop) -> tuple[ProducerPlan, ...]:
    return tuple(
        ProducerPlan(f"producer-{index}", loop.chance(0.6), loop.random.choice((3_000, 8_000)))
        for index in range(loop.between(1, 3))
    )


def _group(loop: EventLoop, group_id: str, topics: tuple[str, ...], commit_version: int) -> GroupPlan:
    random = loop.random
    kind = random.choice(tuple(GroupKind))
    session_timeout_ms = random.choice((6_000, 10_000))
    rebalance_timeout_ms = random.choice((8_000, 15_000))
    subscription = tuple(random.sample(topics, loop.between(1, len(topics))))
    is_even = loop.chance(0.7)
    has_regex = kind is GroupKind.CONSUMER and loop.chance(0.3)
    assignor = random.choice((None, "uniform", "range", "load"))
    members = []
    for index in range(loop.between(1, 5)):
        name = f"{group_id}.member-{index}"
        own = subscription if is_even else tuple(random.sample(topics, loop.between(1, len(topics))))
        members.append(
            MemberPlan(
                name=name,
                group_id=group_id,
                instance_id=f"instance-{index}" if loop.chance(0.3) else None,
                topics=own,
                session_timeout_ms=session_timeout_ms,
                rebalance_timeout_ms=rebalance_timeout_ms,
                heartbeat_interval_ms=random.choice((1_000, 2_000)),
                poll_interval_ms=random.choice((300, 700, 1_500)),
                commit_interval_ms=random.choice((1_000, 3_000, 5_000)),
                commit_version=commit_version,
                rack=random.choice(("a", "b", None)),
                assignor=assignor,
                regex=random.choice(_REGEXES) if has_regex else None,
                heartbeat_version=1 if has_regex or loop.chance(0.8) else 0,
            )
        )
    classic_kind = kind if kind in CLASSIC_KINDS else random.choice(CLASSIC_KINDS)
    return GroupPlan(group_id, kind, classic_kind, tuple(members))
