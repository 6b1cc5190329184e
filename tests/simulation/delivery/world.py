"""One world of workers: members of a group handle the records of a topic, with the decisions of `klamm.core.delivery`.

First there are faults, of the kinds in the plan: members crash, partitions move, members lose the group without
noticing it, commits are lost. Handlers are slow, fail, and fail always. Then the faults end. All records must be
finished and committed, and until then I24 and I25 hold.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from tests.simulation.delivery.checks import DeliveryChecks
from tests.simulation.delivery.group import Group
from tests.simulation.delivery.member import Member
from tests.simulation.delivery.plan import make_plan
from tests.simulation.delivery.topic import make_logs
from tests.simulation.loop import EventLoop
from tests.simulation.notes import Notes
from tests.simulation.violation import Violation

__all__ = ["DeliveryWorld"]

_END_MS: Final = 1_200_000
"""The time limit for all records to be finished: far above what the slowest handlers need one after another."""


class DeliveryWorld:
    """The world of one seed."""

    def __init__(self, seed: int, *, listener: Callable[[str], None] | None = None, sums: bool = False) -> None:
        self.seed = seed
        self.loop = EventLoop(seed)
        self.notes = Notes(self.loop, listener, sums=sums)
        self.plan = make_plan(self.loop)
        self.logs = make_logs(self.loop, self.plan)
        self.checks = DeliveryChecks(self.plan, self.logs)
        self.group = Group(self.loop, self.logs, self.checks)
        self.has_trouble = True
        self._births = 0

    def run(self) -> None:
        """Runs the world. Raises Violation."""
        loop, plan = self.loop, self.plan
        for _ in range(plan.members):
            loop.call_later(loop.between(0, 100), self._start_member)
        self._cause_trouble()
        loop.run_until(plan.trouble_ends_ms)
        self.has_trouble = False
        self.notes.add("healed")
        while not self._is_done():
            if loop.now_ms > _END_MS:
                raise Violation(26, f"after {_END_MS} ms: {self._missing()}")
            loop.run_until(loop.now_ms + 500)

    def _start_member(self) -> None:
        self._births += 1
        self.group.join(Member(self, f"member-{self._births}"))

    def _cause_trouble(self) -> None:
        loop, plan = self.loop, self.plan
        if not self.has_trouble:
            return
        loop.call_later(loop.between(50, 600), self._cause_trouble)
        members = [member for member in self.group.members if member.is_reachable]
        if not members:
            return
        member = loop.random.choice(members)
        what = loop.random.choice(("crash", "move", "lose", "nothing"))
        if what == "crash" and plan.has_crashes:
            member.crash()
            loop.call_later(plan.session_ms, partial(self.group.remove, member))
            loop.call_later(loop.between(10, 1_500), self._start_member)
        elif what == "move" and plan.has_revocations:
            self.group.rotate()
        elif what == "lose" and plan.has_losses:
            self._cut(member)

    def _cut(self, member: Member) -> None:
        """Cuts a member off: the group removes it if its session ends before the network is whole again."""
        loop = self.loop
        self.notes.add("%s is cut off", member.name)
        member.is_cut = True
        away_ms = loop.random.choice((0.5, 1.5, 3.0)) * self.plan.session_ms

        def end_session() -> None:
            if member.is_cut:
                self.group.remove(member)

        def mend() -> None:
            member.is_cut = False
            if member in self.group.members:
                self.group.balance()
            elif member.process.is_alive:
                member.lose()

        loop.call_later(self.plan.session_ms, end_session)
        loop.call_later(away_ms, mend)

    def _is_done(self) -> bool:
        return all(
            len(log.finished) == len(log.records) and log.committed == log.end for log in self.logs if log.records
        )

    def _missing(self) -> str:
        return ", ".join(
            f"{log.name} has {len(log.records) - len(log.finished)} unfinished records, {log.committed} of {log.end}"
            for log in self.logs
        )
