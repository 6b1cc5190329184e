"""Exactly once: processors write outputs in transactions that also commit the offsets of their inputs (I12).

Each input below the group's committed offset has one output that is read as committed, and each input above it has
none. A record that its client wrote twice (`duplicates.py`) counts as that many inputs.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.checker.analysis.groups import last_fetches
from tests.checker.anomaly import Anomaly
from tests.checker.facts import Facts, Record, Sight

__all__ = ["find"]


def find(facts: Facts) -> Iterator[Anomaly]:
    """Yields `processed-twice` for two outputs of one input, and `torn-offsets` for an input that was committed without
    its output or has an output without being committed."""
    outputs: dict[int, list[Record]] = {}
    for record in facts.records.values():
        if record.source is not None and facts.is_seen(record.value, "read_committed"):
            outputs.setdefault(record.source, []).append(record)
    for source, records in outputs.items():
        if len(records) > max(1, len(_places(facts, source))):
            values = [record.value for record in records]
            yield Anomaly(
                "processed-twice",
                f"{source} was made into {values}, all committed",
                tuple(record.index for record in records),
                frozenset({source, *values}),
            )
    if not facts.is_whole:
        return  # committed offsets change until producers have ended
    groups = {commit.group for commit in facts.commits if commit.transaction is not None and commit.transaction.records}
    fetches = last_fetches(facts)
    for group in sorted(groups & set(fetches)):
        fetch = fetches[group]
        for partition, fetched in fetch.offsets.items():
            yield from _torn(facts, outputs, (group, fetch.index, partition, fetched or 0))


def _torn(facts: Facts, outputs: dict[int, list[Record]], place: tuple[str, int, str, int]) -> Iterator[Anomaly]:
    group, index, partition, committed = place
    for value in facts.sights["read_committed"]:
        sights = [sight for sight in _places(facts, value) if sight.partition == partition]
        below = sum(sight.offset < committed for sight in sights)
        made = len(outputs.get(value, ()))
        if not sights or below == min(made, len(sights)):
            continue
        where = " and ".join(str(sight.offset) for sight in sights)
        text = f"{group} has committed {committed} of {partition}, and {value} at {where} has"
        has = {0: "no output", 1: "an output"}.get(made, f"{made} outputs")
        indexes = sorted({index, sights[0].index, *(record.index for record in outputs.get(value, ()))})
        yield Anomaly("torn-offsets", f"{text} {has}", tuple(indexes), frozenset({value}))


def _places(facts: Facts, value: int) -> list[Sight]:
    return facts.sights["read_committed"].get(value, [])
