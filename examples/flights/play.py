"""The play: the year passes, the driver and a member are killed, and all groups read the topic to its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Final

from examples.flights.driver import FLOWS, Driver
from examples.flights.members import MEMBER_NAMES, Members
from examples.flights.replay import Replay
from examples.flights.screen import Screen
from examples.flights.watch import Snapshot, Watcher
from klamm import KlammError

__all__ = ["Play"]

VICTIM: Final = "member-2"
DRIVER_DIES_AT: Final = 0.4
MEMBER_DIES_AT: Final = 0.55
TICK_S: Final = 0.2
READY_S: Final = 300.0
END_S: Final = 600.0
"""A machine that was busy with something else needed 72 seconds for the start, and more than 180 for the rest."""


class Play:
    """The acts of the demo."""

    def __init__(self, replay: Replay, members: Members, driver: Driver, watcher: Watcher, screen: Screen) -> None:
        self._replay = replay
        self._members = members
        self._driver = driver
        self._watcher = watcher
        self._screen = screen

    def run(self) -> None:
        """Plays all acts. Raises KlammError when one of them does not end."""
        self._wait(READY_S, "the members or the pipeline did not get ready", self._is_ready)
        self._screen.say(f"the queue's three members share the partitions: {_shares(self._watcher.latest)}")
        self._screen.say("the pipeline runs: flow delays writes a topic, flow arrivals writes files")
        self._replay.start()
        driver, queue = self._driver_dies(), self._member_dies()
        deadline_s = time.monotonic() + END_S
        acts = [driver, queue]
        while acts or self._replay.is_alive() or not self._is_read():
            acts = [act for act in acts if next(act, None) is not None]
            self._look(deadline_s, "the groups did not get to the end of the topic")
        self._wait(END_S, "the watermark did not pass the last day", self._is_closed)
        self._screen.say(f"all {self._replay.written:,} records are read by the queue and by both flows")
        if self._driver.stop() != 0:
            raise KlammError(f"the pipeline failed; its messages are in {self._driver.messages}")
        self._screen.say("the pipeline is stopped (SIGTERM): it has finished its micro-batches")

    def _driver_dies(self) -> Iterator[bool]:
        """Kills the driver and starts it again. Yields until each flow has finished a micro-batch."""
        while self._replay.progress < DRIVER_DIES_AT or self._driver.latest.keys() != set(FLOWS):
            yield True
        batches = " and ".join(f"{self._driver.latest[flow]['batch_id']} of {flow}" for flow in FLOWS)
        self._driver.kill()
        killed_s = time.monotonic()
        self._screen.say(
            f"the driver is killed, with its JVM and workers (SIGKILL), after micro-batch {batches}; "
            "the same command starts the pipeline again"
        )
        self._driver.start()
        while self._driver.first.keys() != set(FLOWS):
            yield True
        batches = " and ".join(f"{self._driver.first[flow]['batch_id']} of {flow}" for flow in FLOWS)
        self._screen.say(
            f"the pipeline goes on from its checkpoints, with micro-batch {batches} "
            f"({time.monotonic() - killed_s:.1f} s after the kill)"
        )

    def _member_dies(self) -> Iterator[bool]:
        """Kills a member. Yields until others own its partitions."""
        while self._replay.progress < MEMBER_DIES_AT:
            yield True
        before = self._watcher.latest
        self._members.kill(VICTIM)
        killed_s = time.monotonic()
        orphans = _owned(before, VICTIM)
        self._screen.say(f"{VICTIM} of the queue is killed (SIGKILL); it owned partitions {_listed(orphans)}")
        while not _has_moved(self._watcher.latest):
            yield True
        owners = [self._watcher.latest.lanes[index].owner or "no owner" for index in orphans]
        self._screen.say(
            f"{VICTIM} sent no heartbeat for 6 s: partitions {_listed(orphans)} went to "
            f"{_listed(owners)} ({time.monotonic() - killed_s:.1f} s after the kill)"
        )

    def _is_ready(self) -> bool:
        return {lane.owner for lane in self._watcher.latest.lanes} == set(MEMBER_NAMES) and self._driver.is_running()

    def _is_read(self) -> bool:
        lanes = self._watcher.latest.lanes
        return sum(lane.high_watermark for lane in lanes) >= self._replay.written and all(
            lane.lag(group) == 0 for lane in lanes for group in lane.committed
        )

    def _is_closed(self) -> bool:
        """Whether the flow delays has had a micro-batch after the closing event, which wrote the last days."""
        watermark = self._driver.latest.get("delays", {}).get("watermark")
        return watermark is not None and datetime.fromisoformat(watermark) >= self._replay.end + timedelta(days=1)

    def _wait(self, seconds: float, complaint: str, is_so: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + seconds
        while not is_so():
            self._look(deadline_s, complaint)

    def _look(self, deadline_s: float, complaint: str) -> None:
        """Shows the lanes. Raises KlammError if a part has failed, and with `complaint` after the deadline."""
        if self._driver.exit_status is not None:
            raise KlammError(f"the pipeline has ended; its messages are in {self._driver.messages}")
        if self._replay.failure is not None:
            raise KlammError(f"a flight could not be written: {self._replay.failure}")
        if time.monotonic() > deadline_s:
            raise KlammError(complaint)
        self._screen.show(None if self._replay.ident is None else self._replay.moment_ms)
        time.sleep(TICK_S)


def _owned(snapshot: Snapshot, member: str) -> list[int]:
    return [index for index, lane in enumerate(snapshot.lanes) if lane.owner == member]


def _shares(snapshot: Snapshot) -> str:
    return ", ".join(f"{name} has {_listed(_owned(snapshot, name))}" for name in MEMBER_NAMES)


def _has_moved(snapshot: Snapshot) -> bool:
    owners = {lane.owner for lane in snapshot.lanes}
    return VICTIM not in snapshot.members and VICTIM not in owners and None not in owners


def _listed(things: list[int] | list[str]) -> str:
    return " and ".join(map(str, things))
