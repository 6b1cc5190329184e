"""The language of scenarios: parsing a file, errors for invalid files, and rewriting a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.scenarios.brokers import broker_config, scenario_paths
from tests.scenarios.language import ScenarioError, parse, rewrite
from tests.scenarios.values import Arguments, milliseconds, partitions, show_milliseconds, show_partitions

TEXT = """\
# About something.
broker limited
topic events 6

A: join range events
  < ok, generation 1
  = classic Stable, consumer/range
  =   A of events, owns events:0-5
A: heartbeat
  < ok
  ! < REBALANCE_IN_PROGRESS
  because klamm is
  quicker.
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Returns the path for a scenario file."""
    return tmp_path / "about-something.txt"


def test_a_scenario_is_read(path: Path) -> None:
    """A step is a line without indentation, and its outcome is below it."""
    path.write_text(TEXT)
    scenario = parse(path)
    assert (scenario.name, scenario.broker) == ("about-something", "limited")
    topic, join, heartbeat = scenario.steps
    assert (topic.line, topic.text, topic.kafka) == (3, "topic events 6", [])
    assert join.expected_of(is_kafka=False) == [
        "< ok, generation 1",
        "= classic Stable, consumer/range",
        "=   A of events, owns events:0-5",
    ]
    assert heartbeat.expected_of(is_kafka=True) == ["< ok"]
    assert heartbeat.expected_of(is_kafka=False) == ["< REBALANCE_IN_PROGRESS"]
    assert heartbeat.because == ["because klamm is", "quicker."]


def test_klamm_may_do_nothing(path: Path) -> None:
    """`! nothing` means that klamm's outcome is empty."""
    path.write_text("A: heartbeat\n  < ok\n  ! nothing\n  because it is busy.\n")
    (step,) = parse(path).steps
    assert step.expected_of(is_kafka=False) == []


@pytest.mark.parametrize(
    "text", ["  < ok\n", "A: heartbeat\n  ! < ok\n", "A: heartbeat\n  because\n", "A: heartbeat\n  ok\n"]
)
def test_what_is_no_scenario_is_refused(path: Path, text: str) -> None:
    """A file is invalid with an answer before the first step, a difference without a reason, a reason without a
    difference, or another line."""
    path.write_text(text)
    with pytest.raises(ScenarioError, match=path.name):
        parse(path)


def test_answers_are_rewritten_and_nothing_else(path: Path) -> None:
    """Rewriting keeps comments, empty lines, steps, differences and reasons."""
    rewritten = rewrite(TEXT, {5: ["< MEMBER_ID_REQUIRED, member A"], 9: ["< UNKNOWN_MEMBER_ID"]})
    assert rewritten.splitlines() == [
        "# About something.",
        "broker limited",
        "topic events 6",
        "",
        "A: join range events",
        "  < MEMBER_ID_REQUIRED, member A",
        "A: heartbeat",
        "  < UNKNOWN_MEMBER_ID",
        "  ! < REBALANCE_IN_PROGRESS",
        "  because klamm is",
        "  quicker.",
    ]


@pytest.mark.parametrize("text", ["nothing", "events:0", "events:0-2,5;payments:1"])
def test_partitions_are_written_as_they_are_read(text: str) -> None:
    """Partitions are parsed and shown in the same form, with ranges for adjacent indexes."""
    assert show_partitions(partitions(text)) == text


@pytest.mark.parametrize(("text", "duration_ms"), [("500ms", 500), ("2s", 2000), ("7ms", 7), ("-1", -1)])
def test_durations(text: str, duration_ms: int) -> None:
    """Durations are in seconds or milliseconds."""
    assert milliseconds(text) == duration_ms
    if duration_ms > 0:
        assert show_milliseconds(duration_ms) == text


def test_arguments_that_nobody_takes_are_refused() -> None:
    """An unused argument is an error, so that a typing error is noticed."""
    arguments = Arguments(["range", "sesion=3s"], {"session": "5s"})
    assert arguments.word() == "range"
    assert arguments.duration_ms("session", "60s") == 5000
    with pytest.raises(ScenarioError, match="sesion"):
        arguments.finish()


def test_all_scenarios_can_be_read() -> None:
    """All scenarios have unique names, known broker configurations, and recorded steps."""
    scenarios = [parse(path) for path in scenario_paths()]
    assert len({scenario.name for scenario in scenarios}) == len(scenarios)
    for scenario in scenarios:
        assert broker_config(scenario.broker)
        assert any(step.kafka for step in scenario.steps), f"{scenario.path} was not recorded"
