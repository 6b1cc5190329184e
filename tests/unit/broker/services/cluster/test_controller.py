"""Tests how the controller gives partitions back to their preferred leaders, and which broker is the controller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from tests.support.metadata_brokers import ENDPOINTS, brokers, connect

from klamm.broker.services.cluster.controller import Controller
from klamm.config.broker_config import BrokerConfig
from klamm.metadata.memory_store import MemoryMetadata
from klamm.metadata.metadata_store import MetadataStoreError
from klamm.metadata.replicas.reassignments import Reassignment
from klamm.metadata.service import MetadataService, NewTopic
from klamm.protocol.types import BrokerId
from klamm.worker.simulated_loop import SimulatedLoop

INTERVAL_S = 300
A_MOMENT_S = 1


def _run(scenario: Callable[[], Awaitable[None]]) -> None:
    """Runs a scenario in simulated time."""
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(_awaited(scenario))


async def _awaited(scenario: Callable[[], Awaitable[None]]) -> None:
    await scenario()


async def _create(service: MetadataService, count: int) -> None:
    """Creates partitions that broker 1 leads although broker 2 is in sync and their preferred leader."""
    await service.create_topics([NewTopic("orders", assignments=[(index, [1, 2]) for index in range(count)])])
    turned = [Reassignment("orders", each.index, [2, 1]) for each in service.image.topics["orders"].partitions]
    assert set(await service.replicas.reassign(turned, allows_other_factor=True)) == {None}
    assert _led_by_two(service) == 0


def _led_by_two(service: MetadataService) -> int:
    return sum(each.leader == 2 for each in service.image.topics["orders"].partitions)


@contextmanager
def _controller(service: MetadataService, broker_id: int = 1) -> Iterator[None]:
    config = BrokerConfig(node_id=BrokerId(broker_id), leader_imbalance_check_interval_seconds=INTERVAL_S)
    controller = Controller(lambda: config, service)
    controller.start()
    yield
    controller.stop()


def test_all_preferred_leaders_are_elected_after_one_interval() -> None:
    """More leaders than one turn moves do not wait for further intervals: with thousands of partitions, a broker that
    was restarted would lead its own ones again only after hours."""

    async def scenario() -> None:
        async with brokers(1, 2, maximum_operations=128) as (one, _):
            await _create(one, 2200)
            with _controller(one):
                await asyncio.sleep(INTERVAL_S - A_MOMENT_S)
                assert _led_by_two(one) == 0
                await asyncio.sleep(2 * A_MOMENT_S)
                assert _led_by_two(one) == 2200

    _run(scenario)


def test_partitions_whose_election_fails_are_tried_once_in_an_interval() -> None:
    """A preferred leader may be in sync and stop, so that it is not elected. The controller does not try in a loop."""

    async def scenario() -> None:
        async with brokers(1, 2) as (one, two):
            await _create(one, 3)
            await two.replicas.begin_stop()
            calls = 0
            elect = one.replicas.elect

            async def counted(*arguments: object) -> object:
                nonlocal calls
                calls += 1
                return await elect(*arguments)  # type: ignore[arg-type]

            one.replicas.elect = counted  # type: ignore[assignment, method-assign]
            with _controller(one):
                one.replicas.keep_leaders = _nothing  # type: ignore[assignment, method-assign]
                await asyncio.sleep(2 * INTERVAL_S + A_MOMENT_S)
                assert (calls, _led_by_two(one)) == (2, 0)

    _run(scenario)


async def _nothing() -> int:
    return 0


def test_balance_that_fails_is_tried_again_after_the_interval() -> None:
    """An election that the store refuses ends the turn, not the controller."""

    async def scenario() -> None:
        async with brokers(1, 2) as (one, _):
            await _create(one, 3)
            elect, failures = one.replicas.elect, iter([MetadataStoreError("the store is away")])

            async def fail_once(*arguments: object) -> object:
                for failure in failures:
                    raise failure
                return await elect(*arguments)  # type: ignore[arg-type]

            one.replicas.elect = fail_once  # type: ignore[assignment, method-assign]
            with _controller(one):
                await asyncio.sleep(INTERVAL_S + A_MOMENT_S)
                assert _led_by_two(one) == 0
                await asyncio.sleep(INTERVAL_S)
                assert _led_by_two(one) == 3

    _run(scenario)


def test_another_broker_elects_while_the_controller_stops() -> None:
    """The controller has announced its stop and decides nothing more, but its session still lasts. Meanwhile a leader
    dies."""

    async def scenario() -> None:
        metadata = MemoryMetadata()
        (one, _), (two, _), (three, session) = [await connect(metadata, broker_id) for broker_id in (1, 2, 3)]
        for service in (one, two, three):
            await service.start_broker(ENDPOINTS)
        await one.create_topics([NewTopic("orders", assignments=[(0, [3, 2])])])
        assert two.image.controller_id == 1
        with _controller(two, 2):
            await one.replicas.begin_stop()
            assert (one.image.controller_id, two.image.controller_id) == (2, 2)
            session.inner.lose()
            await asyncio.sleep(A_MOMENT_S)
            (partition,) = two.image.topics["orders"].partitions
            assert (partition.leader, partition.isr) == (2, (2,))
        await two.replicas.begin_stop()
        assert two.image.controller_id == 1, "all brokers stop"
        for service in (one, two):
            await service.close()

    _run(scenario)
