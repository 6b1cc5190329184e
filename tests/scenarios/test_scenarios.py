"""In every scenario klamm behaves as Apache Kafka did at the recording, except for explained differences.

tests/interop/test_scenarios_against_kafka.py tests the recordings on Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.interop.broker_process import BrokerProcess
from tests.scenarios.brokers import broker_config, scenario_paths
from tests.scenarios.suite import Suite, selected_scenarios


@pytest.fixture(scope="module")
def suite(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    """Plays the selected scenarios on klamm."""
    processes: list[BrokerProcess] = []

    def start(broker: str) -> BrokerProcess:
        processes.append(BrokerProcess(tmp_path_factory.mktemp(broker), broker_config(broker)))
        return processes[-1]

    suite = Suite(selected_scenarios(request), start, is_kafka=False)
    yield suite
    suite.close()
    for process in processes:
        process.stop()
        assert "Traceback" not in process.log(), process.log()[-4000:]


@pytest.mark.parametrize("path", scenario_paths(), ids=lambda path: path.stem)
def test_klamm_does_as_recorded(suite: Suite, path: Path) -> None:
    """Every answer, and the group's state after every step, are the recorded ones."""
    suite.check(path)
