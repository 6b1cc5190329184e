"""Tests that members continue to fetch during a rebalance that does not concern them (I19, KIP-429, KIP-848).

A member whose process is stopped delays the end of a rebalance until its session timeout. During that time, the test
writes rounds of records, one record to each partition that the steady member keeps. A round counts if its records
arrive while the rebalance is still in progress. The test needs no clock: if the member stopped fetching, no round would
count. The test ends after some rounds, long before the session timeout.

A suite inherits these tests and defines the fixture `new_client`.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator
from typing import ClassVar, NamedTuple

import pytest
from confluent_kafka import Producer
from tests.interop.client_process import Member
from tests.interop.group_scenarios import StartClient
from tests.interop.owner_watch import describe_consumer_group
from tests.interop.record_scenarios import PARTITIONS
from tests.support.group_configs import set_group_config
from tests.support.wire import Wire

from klamm.protocol.schema.describe_groups_request import DescribeGroupsRequest
from klamm.protocol.schema.describe_groups_response import DescribeGroupsResponse

__all__ = ["SESSION_MS", "FetchingScenarios"]

logger = logging.getLogger(__name__)

SESSION_MS = "40000"
ROUNDS = 10
"""The number of rounds that a test writes; fewer would prove nothing."""
STANDSTILL_S = 3.0
"""How long a test waits for a round that must not arrive: a busy machine needs less for ten rounds."""


class Scene(NamedTuple):
    """The broker, topic and group of a test."""

    bootstrap: str
    wire: Wire
    topic: str
    group: str

    def classic_state(self) -> str:
        """Returns the state of a classic group."""
        request = DescribeGroupsRequest(groups=[self.group])
        (described,) = self.wire.call(DescribeGroupsResponse, 5, request).groups
        return described.group_state

    def consumer_state(self) -> str:
        """Returns the state of a group of the consumer protocol."""
        return describe_consumer_group(self.wire, self.group).group_state


class Rounds(NamedTuple):
    """The result of writing during a rebalance."""

    arrived: int
    """The number of rounds that arrived during the rebalance."""
    longest_gap_ms: float
    """The longest time between the arrivals of two rounds; the first gap begins when the writing begins."""


class FetchingScenarios:
    """Scenarios with one steady member, one stopped member and one new member."""

    cooperative: ClassVar[dict[str, str]]
    """Settings of a member with a cooperative assignor."""
    eager: ClassVar[dict[str, str]]
    """Settings of a member with an eager assignor."""

    @pytest.fixture
    def scene(self, bootstrap: str, topic: str, group: str) -> Iterator[Scene]:
        """A broker, topic and group, with a connection to request the group's state."""
        with Wire(bootstrap) as wire:
            yield Scene(bootstrap, wire, topic, group)

    def test_a_cooperative_member_reads_through_a_rebalance(self, start_client: StartClient, scene: Scene) -> None:
        """A classic member with a cooperative assignor reads all its partitions while the group waits for another
        member."""
        steady = stand_still(start_client, scene, self.cooperative)
        rounds = write_while(lambda: scene.classic_state() == "PreparingRebalance", scene, steady)
        logger.info("classic and cooperative: %s", rounds)
        assert rounds.arrived == ROUNDS, rounds

    def test_an_eager_member_does_not(self, start_client: StartClient, scene: Scene) -> None:
        """A classic member with an eager assignor reads no round during the rebalance, so the rounds do show the
        difference."""
        steady = stand_still(start_client, scene, self.eager)
        steady.wait_until(lambda m: m.assignment == [], "gives everything up")
        everything = list(range(PARTITIONS))
        rounds = write_while(
            lambda: scene.classic_state() == "PreparingRebalance", scene, steady, everything, seconds=STANDSTILL_S
        )
        assert rounds.arrived == 0, rounds

    def test_a_member_of_the_consumer_protocol_reads_through_a_rebalance(
        self, start_client: StartClient, scene: Scene
    ) -> None:
        """A member of the consumer protocol reads its kept partitions while the group waits for another member to give
        up some."""
        set_group_config(scene.bootstrap, scene.group, consumer_session_timeout_ms=SESSION_MS)
        steady = stand_still(start_client, scene, {"group_protocol": "consumer"})
        steady.wait_until(lambda m: len(m.assignment or []) == 2, "gives one partition up")
        rounds = write_while(lambda: scene.consumer_state() == "Reconciling", scene, steady)
        logger.info("consumer protocol: %s", rounds)
        assert rounds.arrived == ROUNDS, rounds


def stand_still(start_client: StartClient, scene: Scene, settings: dict[str, str]) -> Member:
    """Returns the steady member of a group whose rebalance lasts until a session timeout."""
    one, other = start_client(), start_client()
    steady = one.join("steady", scene.group, scene.topic, **settings)
    stopped = other.join("stopped", scene.group, scene.topic, **settings)
    for member in (steady, stopped):
        member.wait_until(lambda m: len(m.assignment or []) == 3, "owns half")
    other.pause()
    # The session timeout of the stopped member runs now. A new process would use up much of it on a slow machine.
    one.join("newcomer", scene.group, scene.topic, **settings)
    return steady


def write_while(
    goes_on: Callable[[], bool],
    scene: Scene,
    member: Member,
    partitions: list[int] | None = None,
    *,
    seconds: float = math.inf,
) -> Rounds:
    """Writes rounds to the partitions of the member while `goes_on` holds; each round waits for the previous one to
    arrive. Ends after `ROUNDS` rounds, or when a round has not arrived for some seconds."""
    producer = Producer({"bootstrap.servers": scene.bootstrap, "linger.ms": "0"})
    while not goes_on():
        time.sleep(0.01)
    kept = partitions or member.assignment
    assert kept
    arrived, longest, last = 0, 0.0, time.monotonic()
    while arrived < ROUNDS:
        values = {f"{arrived}-{partition}" for partition in kept}
        for partition in kept:
            producer.produce(scene.topic, partition=partition, value=f"{arrived}-{partition}")
        assert producer.flush(30) == 0
        written = time.monotonic()
        while not values <= {record["value"] for record in member.records[-200:]}:
            if not goes_on() or time.monotonic() - written > seconds:
                return Rounds(arrived, longest)
            time.sleep(0.005)
        if not goes_on():
            break
        arrived, longest, last = arrived + 1, max(longest, (time.monotonic() - last) * 1000), time.monotonic()
    return Rounds(arrived, longest)
