"""Tests real drivers that own a group and are killed or paused.

The next driver takes over with the same checkpoint, and each record is written once. `make faults` kills more often:
KLAMM_SPARK_KILLS sets the number of kills.
"""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from tests.support.files_of_sink import committed_rows
from tests.support.spark_driver import SparkDriver
from tests.support.spark_topics import Topic

from klamm.client.cluster import Cluster
from klamm.client.config import ClientConfig
from klamm.client.group_description import ClassicDescription, GroupDescriptions
from klamm.spark.source.group.exclusive_assignor import owner_in

KILLS = int(os.environ.get("KLAMM_SPARK_KILLS", "3"))
_PATIENCE_S = 240.0


class Drivers:
    """Drivers of one query: one topic, one group, one checkpoint, one output."""

    def __init__(self, topic: Topic, folder: Path, stack: ExitStack) -> None:
        self.topic = topic
        self.folder = folder
        self.group = f"group-{uuid.uuid4().hex[:8]}"
        self._stack = stack
        self._count = 0

    def start(self) -> SparkDriver:
        self._count += 1
        options = self.topic.options(
            startingOffsets="earliest",
            maxOffsetsPerTrigger=20,
            kafka_group_id=self.group,
            klamm_group_mode="member",
            # An owner that stops for longer than its session is fenced, also by a pause of a busy machine.
            kafka_session_timeout_ms=20_000,
            kafka_heartbeat_interval_ms=500,
        )
        driver = SparkDriver(
            self.folder / f"driver-{self._count}.log",
            options=options,
            checkpoint=str(self.folder / "checkpoint"),
            output=str(self.folder / "output"),
        )
        return self._stack.enter_context(driver)

    def members(self) -> dict[str, bool]:
        """Returns the client ids of the members, and whether each member owns the group."""
        config = ClientConfig.from_mapping({"bootstrap.servers": self.topic.bootstrap_servers})
        with closing(GroupDescriptions(Cluster(config), self.group)) as descriptions:
            described = descriptions.describe()
        if not isinstance(described, ClassicDescription):
            return {}
        return {
            member.client_id: owner_in(bytes(member.member_assignment)) == member.member_id
            for member in described.members
        }

    def written(self) -> list[int]:
        """Returns the values in the output, without files that the log of Spark's file sink does not list yet."""
        return sorted(int(value) for (value,) in committed_rows(self.folder / "output", ["value"]))

    def eventually(self, condition: Callable[[], bool], *drivers: SparkDriver) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not condition():
            for driver in drivers:
                assert driver.is_running, driver.text()[-3000:]
            assert time.monotonic() < deadline, "\n".join(driver.text()[-2000:] for driver in drivers)
            time.sleep(0.1)


@pytest.fixture
def drivers(topic: Topic, tmp_path: Path) -> Iterator[Drivers]:
    with ExitStack() as stack:
        yield Drivers(topic, tmp_path, stack)


@pytest.mark.timeout(900 + 120 * KILLS)
def test_the_next_driver_takes_over_from_one_that_is_killed(drivers: Drivers) -> None:
    """A waiting driver takes over from a killed one with the same checkpoint, and each record is written once.

    The first kill ends only the JVM; the planning process of that driver must then leave the group.
    """
    owner = drivers.start()
    drivers.eventually(lambda: True in drivers.members().values(), owner)
    produced = 0
    for number in range(KILLS):
        successor = drivers.start()
        drivers.eventually(lambda: len(drivers.members()) == 2, owner, successor)
        drivers.topic.produce(range(produced, produced + 50))
        produced += 50
        seen = len(drivers.written())
        # Kill the owner in the middle of its work: 50 records are three micro-batches.
        drivers.eventually(lambda seen=seen: len(drivers.written()) > seen, owner, successor)  # type: ignore[misc]
        if number == 0:
            owner.kill_jvm()
            drivers.eventually(lambda: len(drivers.members()) == 1, successor)
        else:
            owner.kill()
        owner = successor
    drivers.eventually(lambda: len(drivers.written()) >= produced, owner)

    assert drivers.written() == list(range(produced))
    drivers.eventually(lambda: drivers.topic.committed(drivers.group) == drivers.topic.ends(), owner)
    owner.stop()
    # The planning process may outlive the driver for a moment, and then leaves the group.
    drivers.eventually(lambda: not drivers.members())


@pytest.mark.timeout(900)
def test_a_driver_that_was_paused_is_fenced(drivers: Drivers) -> None:
    """A driver that resumes after its session timeout ends with an error naming the new owner, and writes no more."""
    paused = drivers.start()
    drivers.eventually(lambda: True in drivers.members().values(), paused)
    drivers.topic.produce(range(30))
    drivers.eventually(lambda: len(drivers.written()) == 30, paused)
    successor = drivers.start()
    drivers.eventually(lambda: len(drivers.members()) == 2, paused, successor)

    paused.signal(signal.SIGSTOP)
    drivers.eventually(lambda: list(drivers.members().values()) == [True], successor)
    drivers.topic.produce(range(30, 60))
    drivers.eventually(lambda: len(drivers.written()) == 60, successor)
    paused.signal(signal.SIGCONT)
    drivers.eventually(lambda: "QUERY ENDED" in paused.text(), successor)

    (name,) = drivers.members()
    assert f"{name} at " in paused.text()
    assert "has taken over" in paused.text()
    assert drivers.written() == list(range(60))
