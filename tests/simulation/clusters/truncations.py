"""I7 in worlds of replicas: a follower truncates its log exactly to where it diverges from its leader's log.

A truncation may not remove a batch that the leader holds, nor a committed one. And it must remove all other batches:
whenever a follower appends what its leader has sent, both logs have the same batch before. So by induction the whole
log of the follower is that of its leader.

Only followers of the present leader epoch are checked. An answer of an earlier leader may arrive late, and its leader
may lack records that were committed since. A follower that still believes such a leader is not waited for by any
commit; `ReplicaChecks` checks that no replica that may be elected lacks a committed record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

from tests.simulation.clusters.compaction_checks import COMPACTED
from tests.simulation.clusters.log_batches import StoredBatch, batches_of
from tests.simulation.violation import Violation

from klamm.protocol.types import BrokerId, LeaderEpoch, Millis, Offset, TopicPartition
from klamm.storage.log.log_following import LogFollowing
from klamm.storage.log.log_truncation import LogTruncation

if TYPE_CHECKING:
    from tests.simulation.clusters.replicated import ReplicaWorld

    from klamm.storage.log.log import Log

__all__ = ["TruncationChecks"]


class _Pair(NamedTuple):
    """The log of a follower, and that of the leader which it follows; None if the leader's process has ended."""

    follower: BrokerId
    log: Log
    leader: BrokerId
    of_leader: Log | None


class TruncationChecks:
    """The checks of a world. `committed` returns the committed batches of a partition as far as they are known."""

    def __init__(
        self,
        world: ReplicaWorld,
        report: Callable[[Callable[[], None]], None],
        committed: Callable[[TopicPartition], Iterable[StoredBatch]],
    ) -> None:
        self._world = world
        self._report = report
        self._committed = committed

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Watches what followers truncate and append while the context is open."""
        truncate, append = LogTruncation.truncate_to, LogFollowing.append

        def watched_truncation(truncation: LogTruncation, offset: Offset, now_ms: Millis) -> bool:
            self._report(lambda: self._check_cut(truncation, offset))
            return truncate(truncation, offset, now_ms)

        def watched_append(following: LogFollowing, *arguments: Any, **options: Any) -> int:
            self._report(lambda: self._check_end(following))
            return append(following, *arguments, **options)

        with (
            patch.object(LogTruncation, "truncate_to", watched_truncation),
            patch.object(LogFollowing, "append", watched_append),
        ):
            yield

    def _check_cut(self, truncation: LogTruncation, offset: Offset) -> None:
        """Checks what a truncation is about to remove."""
        where = truncation._log.topic_partition
        pair = self._pair(where, lambda log: log.truncation is truncation)
        if pair is None or offset >= pair.log.log_end_offset:
            return
        cut = batches_of(pair.log, max(offset, pair.log.log_start_offset), pair.log.log_end_offset)
        what = f"broker {pair.follower} truncates {where} to {offset}"
        _check_none_is_in(self._committed(where), cut, what, "is committed")
        if cut and pair.of_leader is not None:
            start = max(cut[0].base_offset, pair.of_leader.log_start_offset)
            held = batches_of(pair.of_leader, start, min(cut[-1].next_offset, pair.of_leader.log_end_offset))
            _check_none_is_in(held, cut, what, f"is in the log of its leader, broker {pair.leader}")

    def _check_end(self, following: LogFollowing) -> None:
        """Checks a log to which a follower is about to append."""
        where = following._log.topic_partition
        pair = self._pair(where, lambda log: log.following is following)
        if pair is None or pair.of_leader is None:
            return
        log, of_leader = pair.log, pair.of_leader
        end = int(log.log_end_offset)
        if end - 1 < max(log.log_start_offset, of_leader.log_start_offset):
            return
        own = next(iter(batches_of(log, end - 1, end)), None)
        has_same = of_leader.log_end_offset >= end
        other = next(iter(batches_of(of_leader, end - 1, end)), None) if has_same else None
        if has_same and where.topic in COMPACTED and self._world.cluster.has_compaction:
            # Each replica compacts its own log: a batch may have fewer records than the other, or be gone.
            is_same = own is None or other is None or own[:3] == other[:3]
        else:
            is_same = has_same and own == other
        if not is_same:
            is_damaged = own is not None and other is not None and own[:3] == other[:3]
            raise Violation(
                2 if is_damaged else 7,
                f"broker {pair.follower} appends to {where} behind {own}, and its leader, broker {pair.leader}, has"
                f" {other}",
            )

    def _pair(self, where: TopicPartition, is_meant: Callable[[Log], bool]) -> _Pair | None:
        """Returns a follower's log and its leader's; None if no broker follows the present leader with this log."""
        checks = self._world.checks
        topic = checks.image.topics.get(where.topic)
        if topic is None:
            return None
        partition = topic.partitions[where.partition]
        for number, machine in self._world.machines.items():
            log = machine.logs.get(where)
            if log is None or not is_meant(log):
                continue
            context = None if machine.services is None else machine.services.context
            if context is None:
                return None
            followed = context.partitions.unled.followed.get((topic.topic_id, where.partition))
            if followed is None or followed.log is not log or log.is_offline:
                return None
            if (followed.leader, followed.leader_epoch) != (partition.leader, partition.leader_epoch):
                return None
            return _Pair(
                number, log, followed.leader, self._log_of_leader(where, followed.leader, followed.leader_epoch)
            )
        return None

    def _log_of_leader(self, where: TopicPartition, leader: BrokerId, epoch: LeaderEpoch) -> Log | None:
        """Returns the log of a broker if it leads in this epoch, so that only its end changes."""
        context = self._world.machines[leader].context
        led = None if context is None else context.partitions.by_name.get(where.topic)
        partition = None if led is None else led.partitions[where.partition]
        if partition is None or not partition.leads or partition.leader_epoch != epoch or partition.log.is_offline:
            return None
        return partition.log


def _check_none_is_in(held: Iterable[StoredBatch], cut: Iterable[StoredBatch], what: str, is_held: str) -> None:
    all_held = frozenset(held)
    same = next((each for each in cut if each in all_held), None)
    if same is not None:
        raise Violation(7, f"{what}, and {same} {is_held}")
