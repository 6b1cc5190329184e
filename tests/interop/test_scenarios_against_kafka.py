"""Tests that the recorded scenarios match Apache Kafka: each scenario runs on Kafka and is compared step by step.

tests/scenarios compares klamm with the same records. `python -m tests.scenarios.record NAME` records a scenario again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from operator import attrgetter
from pathlib import Path

import pytest
from tests.scenarios.brokers import broker_config, scenario_paths
from tests.scenarios.suite import Suite, selected_scenarios
from tests.support.kafka_broker import ApacheKafka, KafkaUnavailable
from tests.support.share_of_gate import share_of_gate
from tests.support.toolchains import toolchain_is_missing

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def suite(request: pytest.FixtureRequest) -> Iterator[Suite]:
    """The selected scenarios on Apache Kafka."""
    with ExitStack() as brokers:

        def start(broker: str) -> ApacheKafka:
            try:
                return brokers.enter_context(ApacheKafka(broker_config(broker)))
            except KafkaUnavailable as error:
                toolchain_is_missing("java", str(error))

        suite = Suite(selected_scenarios(request), start, is_kafka=True)
        yield suite
        suite.close()


@pytest.mark.parametrize("path", share_of_gate(scenario_paths(), 6, attrgetter("name")), ids=lambda path: path.stem)
def test_apache_kafka_does_as_recorded(suite: Suite, path: Path) -> None:
    """Kafka's answers, and the group's state after every step, equal the recorded file."""
    suite.check(path)
