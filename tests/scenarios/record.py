"""Records scenarios: plays them on Apache Kafka and writes its answers into their files.

python -m tests.scenarios.record [NAME...]     (by default all)

Each scenario is played twice; the second run must have the outcome that the first run recorded.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tests.scenarios.brokers import Broker, broker_config, scenario_paths
from tests.scenarios.language import Scenario, ScenarioError, parse, rewrite
from tests.scenarios.play import play
from tests.scenarios.report import describe_failure
from tests.scenarios.suite import prepare_broker
from tests.support.kafka_broker import ApacheKafka

AT_ONCE: Final = 6


def _record(scenario: Scenario, broker: Broker) -> str | None:
    outcomes = play(scenario, broker, lambda step: None)
    seen = {outcome.step.line: outcome.seen for outcome in outcomes}
    text = scenario.path.read_text(encoding="utf-8")
    scenario.path.write_text(rewrite(text, seen), encoding="utf-8")
    return None


def _check(scenario: Scenario, broker: Broker) -> str | None:
    recorded = parse(scenario.path)
    outcomes = play(recorded, broker, lambda step: step.expected_of(is_kafka=True))
    return describe_failure(recorded, outcomes, is_kafka=True)


def _play_all(
    how: Callable[[Scenario, Broker], str | None], scenarios: list[Scenario], broker: str
) -> dict[str, str | None]:
    """Returns the complaints, by the scenario's name."""
    at_once = 1 if scenarios and scenarios[0].restarts else AT_ONCE
    with ApacheKafka(broker_config(broker)) as kafka, ThreadPoolExecutor(at_once) as pool:
        prepare_broker(kafka.bootstrap_servers)

        def attempt(scenario: Scenario) -> str | None:
            try:
                return how(scenario, kafka)
            except (ScenarioError, AssertionError) as error:
                return f"{scenario.path}: {error}"

        return dict(zip([each.name for each in scenarios], pool.map(attempt, scenarios), strict=True))


def main(names: list[str]) -> int:
    """Records the scenarios with these names; returns the exit status."""
    by_broker: dict[tuple[str, bool], list[Scenario]] = defaultdict(list)
    for path in scenario_paths():
        if not names or path.stem in names:
            scenario = parse(path)
            by_broker[scenario.broker, scenario.restarts].append(scenario)
    complaints: list[str] = []
    for (broker, _), scenarios in by_broker.items():
        failed = {name: each for name, each in _play_all(_record, scenarios, broker).items() if each is not None}
        recorded = [scenario for scenario in scenarios if scenario.name not in failed]
        again = _play_all(_check, recorded, broker)
        complaints += [*failed.values(), *filter(None, again.values())]
    print("\n\n".join(complaints) or f"{sum(map(len, by_broker.values()))} scenarios recorded")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
