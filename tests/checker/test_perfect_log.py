"""Tests that the checks find no anomaly in the history of a perfect log, and find each kind of damage to it."""

from __future__ import annotations

import dataclasses
from random import Random

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.checker.check import check
from tests.checker.history import Event, Origins, Poll, entries_of
from tests.checker.perfect_log import history
from tests.support.examples import examples

_SETTINGS = settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@_SETTINGS
@given(seed=st.integers(0, 2**32), steps=st.integers(0, 150))
def test_a_perfect_log_never_gives_cause_for_complaint(seed: int, steps: int) -> None:
    """Lost answers, aborts, transactions of unknown outcome and partitions with a new owner are no anomalies."""
    random = Random(seed)
    _, anomalies = check(entries_of(history(random, steps)))
    assert anomalies == []


def _without(events: list[Event], value: int) -> list[Event]:
    """Returns the history as if the record had vanished from the log after its producer got the answer."""
    changed: list[Event] = []
    for event in events:
        if isinstance(event, Poll):
            batches = []
            for partition, offsets, values in event.batches:
                kept = [(at, got) for at, got in zip(offsets, values, strict=True) if got != value]
                if kept:
                    batches.append((partition, tuple(at for at, _ in kept), tuple(got for _, got in kept)))
            if batches:
                changed.append(dataclasses.replace(event, batches=tuple(batches)))
        else:
            changed.append(event)
    return changed


@_SETTINGS
@given(seed=st.integers(0, 2**32), steps=st.integers(20, 100))
def test_a_log_that_loses_any_acknowledged_record_is_found_out(seed: int, steps: int) -> None:
    """The checks report any acknowledged record that vanishes from the log."""
    random = Random(seed)
    events = history(random, steps)
    facts, _ = check(entries_of(events))
    acknowledged = [value for value, record in facts.records.items() if record.outcome == "ok"]
    assume(acknowledged)
    lost = random.choice(acknowledged)
    _, anomalies = check(entries_of(_without(events, lost)))
    assert lost in {value for anomaly in anomalies for value in anomaly.values}
    assert {"lost-write", "unseen"} & {anomaly.kind for anomaly in anomalies}


@_SETTINGS
@given(seed=st.integers(0, 2**32), steps=st.integers(20, 100))
def test_a_log_that_holds_any_record_twice_is_found_out(seed: int, steps: int) -> None:
    """A record that the log holds twice in one producer epoch is a duplicate, even if clients gave up on records."""
    random = Random(seed)
    *events, end = history(random, steps)
    facts, _ = check(entries_of([*events, end]))
    assume(facts.sights["read_committed"])
    value = random.choice(list(facts.sights["read_committed"]))
    sight = facts.sights["read_committed"][value][-1]
    _, _, *producer = next(
        origin for (origin,) in facts.origins[sight.partition].values() if origin[0] <= sight.offset <= origin[1]
    )
    offset = max(facts.origins[sight.partition]) + 1
    again: list[Event] = [
        Poll("last-again", "read_committed", ((sight.partition, (offset,), (value,)),)),
        Origins("last-again", sight.partition, ((offset, offset, producer[0], producer[1], producer[2]),)),
    ]
    _, anomalies = check(entries_of([*events, *again, end]))
    assert value in {each for anomaly in anomalies if anomaly.kind == "duplicate" for each in anomaly.values}


@_SETTINGS
@given(seed=st.integers(0, 2**32), steps=st.integers(20, 100))
def test_a_reader_that_misses_any_record_is_found_out(seed: int, steps: int) -> None:
    """A poll that leaves out a record which other consumers see is reported as `int-poll-skip`."""
    random = Random(seed)
    events = history(random, steps)
    places = [
        (place, number)
        for place, event in enumerate(events)
        if isinstance(event, Poll)
        for number in range(1, len(event.batches[0][1]) - 1)
    ]
    assume(places)
    place, number = random.choice(places)
    event = events[place]
    assert isinstance(event, Poll)
    partition, offsets, values = event.batches[0]
    shorter = partition, offsets[:number] + offsets[number + 1 :], values[:number] + values[number + 1 :]
    isolation = event.isolation
    events[place] = dataclasses.replace(event, batches=(shorter,))
    facts, anomalies = check(entries_of(events))
    assume(offsets[number] in facts.visible[isolation].get(partition, []))
    assert "int-poll-skip" in {anomaly.kind for anomaly in anomalies}
