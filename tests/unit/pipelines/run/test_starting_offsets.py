"""Tests where the query of a flow and that of its dead letters start, as long as they have no position."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from klamm.pipelines import Pipeline, to_topic, topic
from klamm.pipelines.declare.flow import Flow
from klamm.pipelines.run.place import Place
from klamm.pipelines.run.starting_offsets import Starts, determined_starts, stored_start
from klamm.protocol.types import Offset, PartitionIndex, TopicPartition
from klamm.spark.source.offsets import PartitionOffsets

_DROP = {"bad_records": "drop"}


class Log:
    """A topic with one partition that grows by ten records between two looks."""

    def __init__(self) -> None:
        self.latest = 0

    def resolve(self, parameter: str) -> PartitionOffsets:
        self.latest += 10
        return offsets(self.latest)


def offsets(offset: int) -> PartitionOffsets:
    return {TopicPartition("t", PartitionIndex(0)): Offset(offset)}


def flow(start: str = "latest", **arguments: Any) -> Flow:
    pipeline = Pipeline("flights")
    given = {"source": topic("t", start=start), "sink": to_topic("out"), "name": "late"}
    pipeline.flow(**{**given, **arguments})(lambda flights: flights)
    return pipeline.flows["late"]


def first_start(declared: Flow, log: Log) -> Starts:
    return determined(declared, {}, log, has_begun=False)


def determined(
    declared: Flow, stored: Starts, log: Log, *, has_begun: bool = True, end_of_flow: int | None = None
) -> Starts:
    """Determines the starts as a start of the flow does: those of its dead letters first."""
    roles = (True, False) if declared.writes_dead_letters else (False,)
    for is_dead_letters in roles:
        if end_of_flow is not None and not is_dead_letters:
            continue  # the checkpoint has the position
        stored = determined_starts(
            declared,
            stored,
            has_begun=has_begun,
            end_of_flow=None if end_of_flow is None else offsets(end_of_flow),
            resolve=log.resolve,
            is_dead_letters=is_dead_letters,
        )
    return stored


def places(starts: Starts) -> dict[str, int]:
    return {role: at["t"]["0"] for role, at in starts["flights"].items() if role != "start"}


def test_both_queries_begin_at_the_same_records() -> None:
    """The start is resolved once for the flow and its dead letters, also after a restart."""
    log = Log()
    starts = first_start(flow(), log)

    assert places(starts) == {"flow": 10, "dead_letters": 10}
    assert determined(flow(), starts, log, has_begun=False) == starts
    assert determined(flow(), starts, log) == starts


@pytest.mark.parametrize("has_begun", [False, True])
def test_dead_letters_that_are_new_at_an_unfinished_first_micro_batch(has_begun: bool) -> None:
    """Dead letters that are switched on after the first micro-batch has failed begin where the flow began: Spark
    repeats that micro-batch, and the flow leaves out its bad records."""
    log = Log()
    starts = first_start(flow(**_DROP), log)
    assert places(starts) == {"flow": 10}

    assert places(determined(flow(), starts, log, has_begun=has_begun)) == {"flow": 10, "dead_letters": 10}


def test_dead_letters_that_are_new_next_to_a_flow_with_a_history() -> None:
    """They begin where the flow is; those that have a start keep it."""
    log = Log()
    without = first_start(flow(**_DROP), log)
    with_letters = first_start(flow(), log)

    assert places(determined(flow(), without, log, end_of_flow=50)) == {"flow": 10, "dead_letters": 50}
    assert determined(flow(), with_letters, log, end_of_flow=50) == with_letters


@pytest.mark.parametrize("arguments", [{}, _DROP])
def test_another_declared_start(arguments: dict[str, Any]) -> None:
    """Another declared start counts as long as no micro-batch is planned, and has no effect afterwards."""
    log = Log()
    starts = first_start(flow(**arguments), log)

    changed = determined(flow("earliest", **arguments), starts, log, has_begun=False)
    assert set(places(changed).values()) == {20}
    assert determined(flow("earliest", **arguments), starts, log) == starts


def test_starts_that_are_gone() -> None:
    """Without the stored starts, a flow without a finished micro-batch begins at the declared start of now."""
    assert places(determined(flow(), {}, Log())) == {"flow": 10, "dead_letters": 10}


def test_the_start_that_a_check_shows(tmp_path: Path) -> None:
    """A check shows the stored start. Another declared one replaces it, unless a micro-batch is planned."""
    place = Place.at("flights", bootstrap_servers="kafka:9092", checkpoints=str(tmp_path))
    assert stored_start(place, flow(), "flights") is None
    offsets_folder = Path(place.checkpoint("late"), "offsets")
    offsets_folder.mkdir(parents=True)
    Path(place.flow_folder("late"), "start.json").write_text(json.dumps(first_start(flow(), Log())))

    assert stored_start(place, flow(), "flights") == ("latest", offsets(10))
    assert stored_start(place, flow("earliest"), "flights") is None
    (offsets_folder / "0").write_text("v1\n{}\n{}")
    assert stored_start(place, flow("earliest"), "flights") == ("latest", offsets(10))
