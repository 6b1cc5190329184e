"""Plays many scenarios at once, for tests that each wait for one of them.

Scenarios spend most of their time waiting for time to pass, and each is about groups of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from tests.interop.wire_conversations.peer import Peer
from tests.scenarios.brokers import Broker
from tests.scenarios.language import Scenario, ScenarioError, parse
from tests.scenarios.play import Outcome, play
from tests.scenarios.report import describe_failure

__all__ = ["Suite", "prepare_broker", "selected_scenarios"]

AT_ONCE: Final = 10


def prepare_broker(bootstrap_servers: str) -> None:
    """Waits until a broker serves groups, and gets it to where klamm and Apache Kafka are alike."""
    peer = Peer(bootstrap_servers)
    peer.prepare()
    peer.close()


def selected_scenarios(request: pytest.FixtureRequest) -> list[Scenario]:
    """Those that the tests of the fixture's module are run for (parameter `path`)."""
    items = [item for item in request.session.items if item.path == request.path]
    parameters = [item.callspec.params for item in items if hasattr(item, "callspec")]
    paths: list[Path] = [each["path"] for each in parameters if "path" in each]
    return [parse(path) for path in paths]


class Suite:
    """Scenarios, under way on a broker since the first that wants it set like this was asked for.

    `start` starts a broker of that name. Scenarios that restart it have another one, and one after the other.
    """

    def __init__(self, scenarios: Iterable[Scenario], start: Callable[[str], Broker], *, is_kafka: bool) -> None:
        self._scenarios = {scenario.name: scenario for scenario in scenarios}
        self._start = start
        self._is_kafka = is_kafka
        self._pools: list[ThreadPoolExecutor] = []
        self._outcomes: dict[str, Future[list[Outcome]]] = {}
        self._play: dict[str, Callable[[int], Future[list[Outcome]]]] = {}

    def check(self, path: Path) -> None:
        """Waits for a scenario's end. Raises AssertionError, with the step, when it had another outcome than its file
        says.

        Such a one is played once more, when less else goes on: a scenario's times are real, and on a busy machine a
        session may run out, or a group expire, between two steps that are to follow each other at once.
        """
        scenario = self._scenarios[path.stem]
        if scenario.name not in self._outcomes:
            self._begin_all_like(scenario)
        complaint = self._complaint(scenario, self._outcomes[scenario.name])
        if complaint is not None:
            complaint = self._complaint(scenario, self._play[scenario.name](2))
        if complaint is not None:
            pytest.fail(complaint, pytrace=False)

    def _complaint(self, scenario: Scenario, outcomes: Future[list[Outcome]]) -> str | None:
        try:
            return describe_failure(scenario, outcomes.result(), is_kafka=self._is_kafka)
        except (AssertionError, ScenarioError) as error:
            return f"{scenario.name}: {error}"

    def _begin_all_like(self, example: Scenario) -> None:
        broker = self._start(example.broker)
        prepare_broker(broker.bootstrap_servers)
        pool = ThreadPoolExecutor(1 if example.restarts else AT_ONCE)
        self._pools.append(pool)
        for scenario in self._scenarios.values():
            if (scenario.broker, scenario.restarts) == (example.broker, example.restarts):
                self._play[scenario.name] = partial(
                    pool.submit, play, scenario, broker, lambda step: step.expected_of(is_kafka=self._is_kafka)
                )
                self._outcomes[scenario.name] = self._play[scenario.name](1)

    def close(self) -> None:
        """Begins no further scenario, and waits for those under way."""
        for pool in self._pools:
            pool.shutdown(cancel_futures=True)
