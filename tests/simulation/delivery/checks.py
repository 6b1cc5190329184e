"""The checks of a world of workers: I24 and I25, at each start of a handler and at each accepted commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.simulation.delivery.plan import DeliveryPlan
from tests.simulation.delivery.topic import LogRecord, PartitionLog
from tests.simulation.violation import Violation

from klamm.core.delivery.record_delivery import Order
from klamm.core.delivery.work import Work
from klamm.protocol.types import Offset, TopicPartition

__all__ = ["FIRST_WAIT_MS", "LONGEST_WAIT_MS", "DeliveryChecks", "Ownership"]

FIRST_WAIT_MS: Final = 50
LONGEST_WAIT_MS: Final = 1_000
"""The waits of failed records, which grow from the first one to the longest one."""


class Ownership:
    """What one member does with one partition, from the assignment on."""

    def __init__(self, member: str, log: PartitionLog) -> None:
        self.member = member
        self.log = log
        self.start = log.committed or Offset(0)
        self.inherited = log.known_finished
        """What was finished by the commit with which the ownership began."""
        self.finished: set[Offset] = set()
        self.running: set[Offset] = set()
        self.calls: dict[Offset, int] = {}
        """How many times the handler was called for each record."""
        self.called_alone_ms: dict[Offset, float] = {}
        """When the handler was called for the first time with each record alone."""
        self.is_over = False
        self.was_drained = False

    @property
    def known_finished(self) -> frozenset[Offset]:
        """What a commit that is made now says."""
        return self.inherited | self.finished


class DeliveryChecks:
    """Raises Violation."""

    def __init__(self, plan: DeliveryPlan, logs: Sequence[PartitionLog]) -> None:
        self._order: Order = plan.order
        self._attempts = plan.attempts
        self._deadline_s = plan.deadline_s
        self._previous = {log.name: dict(self._pairs(log)) for log in logs}
        """The record before each record in its lane, for each partition."""
        self._lanes = {log.name: {each.offset: self._lane_of(each) for each in log.records} for log in logs}
        """The lane of each record, for each partition."""
        self._ownerships: dict[TopicPartition, list[Ownership]] = {log.name: [] for log in logs}

    def _pairs(self, log: PartitionLog) -> list[tuple[Offset, Offset]]:
        last: dict[bytes, Offset] = {}
        pairs = []
        for record in log.records:
            lane = self._lane_of(record)
            if lane is not None:
                if lane in last:
                    pairs.append((record.offset, last[lane]))
                last[lane] = record.offset
        return pairs

    def _lane_of(self, record: LogRecord) -> bytes | None:
        if self._order == "partition":
            return b""
        return record.key if self._order == "key" else None

    def began(self, ownership: Ownership) -> None:
        """Notes a new ownership."""
        self._ownerships[ownership.log.name].append(ownership)

    def started(self, ownership: Ownership, run: Sequence[Work], now_ms: float) -> None:
        """I24: records of a lane do not run at once, and start in order. I25: no committed record starts again."""
        name, previous = ownership.log.name, self._previous[ownership.log.name]
        for at, work in enumerate(run):
            offset = work.offset
            what = f"{ownership.member} starts {offset} of {name}"
            if ownership.is_over:
                raise Violation(24, f"{what} after it gave the partition away")
            if offset in ownership.inherited or offset in ownership.finished:
                raise Violation(25, f"{what}, which is finished and committed")
            if offset in ownership.running:
                raise Violation(24, f"{what}, which runs already")
            before = previous.get(offset)
            if before is None or before < ownership.start or before in ownership.inherited:
                continue
            if before in ownership.running:
                raise Violation(24, f"{what} while {before} of the same key runs")
            if before not in ownership.finished and all(earlier.offset != before for earlier in run[:at]):
                raise Violation(24, f"{what} before {before} of the same key is finished")
        for former in self._ownerships[name]:
            if former is not ownership and former.running:
                self._started_after(former, ownership, run)
        for work in run:
            ownership.calls[work.offset] = ownership.calls.get(work.offset, 0) + 1
            if len(run) == 1:
                ownership.called_alone_ms.setdefault(work.offset, now_ms)
        ownership.running.update(work.offset for work in run)

    def _started_after(self, former: Ownership, ownership: Ownership, run: Sequence[Work]) -> None:
        """I24: nothing runs of an ownership that was drained. A member does not run two records of a lane at once, also
        if they belong to two of its ownerships.
        """
        name = ownership.log.name
        if former.was_drained:
            raise Violation(24, f"{name} runs at two members, although {former.member} has drained it")
        if former.member == ownership.member:
            lanes = {self._lanes[name][offset] for offset in former.running} - {None}
            if any(self._lanes[name][work.offset] in lanes for work in run):
                raise Violation(24, f"{ownership.member} runs a key of {name} that its former ownership still runs")

    def gave_up(self, ownership: Ownership, offset: Offset, now_ms: float) -> None:
        """I24: no record becomes a dead letter for another record of its batch. It has all attempts, or its time since
        the first call with it alone does not allow another one.
        """
        calls, began_ms = ownership.calls[offset], ownership.called_alone_ms.get(offset)
        what = f"{ownership.member} gives {offset} of {ownership.log.name} up"
        if began_ms is None:
            raise Violation(24, f"{what}, which was never called alone")
        if calls >= self._attempts:
            return
        next_ms = now_ms + min(FIRST_WAIT_MS * 2 ** (calls - 1), LONGEST_WAIT_MS)
        if self._deadline_s is None or next_ms < began_ms + self._deadline_s * 1000:
            raise Violation(24, f"{what} after {calls} calls, of which the first one alone was at {began_ms} ms")

    def accepted(self, log: PartitionLog, offset: Offset, known: frozenset[Offset]) -> None:
        """I24: no offset is committed past an unfinished record. I25: no commit forgets what was finished."""
        unfinished = log.first_unfinished_below(offset)
        if unfinished is not None:
            raise Violation(24, f"{offset} of {log.name} is committed, and {unfinished} is not finished")
        if offset > log.end:
            raise Violation(24, f"{offset} of {log.name} is committed, beyond the end {log.end}")
        if not log.known_finished <= known:
            raise Violation(25, f"a commit of {log.name} forgets finished records")
