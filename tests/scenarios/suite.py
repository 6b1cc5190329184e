"""Plays many scenarios at once, for tests that each wait for one scenario.

Scenarios mostly wait for time to pass, and each scenario has its own groups.
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
    """Waits until the broker serves groups and is in the state in which klamm and Apache Kafka are alike."""
    peer = Peer(bootstrap_servers)
    peer.prepare()
    peer.close()


def selected_scenarios(request: pytest.FixtureRequest) -> list[Scenario]:
    """Returns the scenarios of the selected tests in the fixture's module (parameter `path`)."""
    items = [item for item in request.session.items if item.path == request.path]
    parameters = [item.callspec.params for item in items if hasattr(item, "callspec")]
    paths: list[Path] = [each["path"] for each in parameters if "path" in each]
    return [parse(path) for path in paths]


class Suite:
    """Scenarios that run on brokers.

    The first check of a scenario starts all scenarios with the same broker configuration. `start` starts a broker with
    that configuration. Scenarios that restart the broker have another one, and run one after another.
    """

    def __init__(self, scenarios: Iterable[Scenario], start: Callable[[str], Broker], *, is_kafka: bool) -> None:
        self._scenarios = {scenario.name: scenario for scenario in scenarios}
        self._start = start
        self._is_kafka = is_kafka
        self._pools: list[ThreadPoolExecutor] = []
        self._outcomes: dict[str, Future[list[Outcome]]] = {}
        self._play: dict[str, Callable[[int], Future[list[Outcome]]]] = {}

    def check(self, path: Path) -> None:
        """Waits for the end of a scenario. Fails the test with a report of the step if its outcome is unexpected.

        A failed scenario is played once more, when fewer others run. Its times are real: on a busy machine a session or
        a group may expire between two steps.
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
        """Cancels scenarios that have not started, and waits for the running ones."""
        for pool in self._pools:
            pool.shutdown(cancel_futures=True)
