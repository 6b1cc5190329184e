"""Exactly once: records made from others in transactions that also commit the others' offsets (I12).

Each input below the group's committed offset has one output that is read as committed, each one above it none.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.checker.analysis.groups import last_fetches
from tests.checker.anomaly import Anomaly
from tests.checker.facts import Facts, Record

__all__ = ["find"]


def find(facts: Facts) -> Iterator[Anomaly]:
    """`processed-twice`: two outputs of one input; `torn-offsets`: an input was committed without its output, or the
    other way round."""
    outputs: dict[int, list[Record]] = {}
    for record in facts.records.values():
        if record.source is not None and facts.is_seen(record.value, "read_committed"):
            outputs.setdefault(record.source, []).append(record)
    for source, records in outputs.items():
        if len(records) > 1:
            values = [record.value for record in records]
            yield Anomaly(
                "processed-twice",
                f"{source} was made into {values}, all committed",
                tuple(record.index for record in records),
                frozenset({source, *values}),
            )
    groups = {commit.group for commit in facts.commits if commit.transaction is not None and commit.transaction.records}
    fetches = last_fetches(facts)
    for group in sorted(groups & set(fetches)):
        fetch = fetches[group]
        for partition, fetched in fetch.offsets.items():
            yield from _torn(facts, outputs, (group, fetch.index, partition, fetched or 0))


def _torn(facts: Facts, outputs: dict[int, list[Record]], place: tuple[str, int, str, int]) -> Iterator[Anomaly]:
    group, index, partition, committed = place
    for value, sights in facts.sights["read_committed"].items():
        sight = sights[0]
        if sight.partition != partition or (sight.offset < committed) == (value in outputs):
            continue
        text = f"{group} has committed {committed} of {partition}, and {value} at {sight.offset} has"
        has = "an output" if value in outputs else "no output"
        indexes = sorted({index, sight.index, *(record.index for record in outputs.get(value, ()))})
        yield Anomaly("torn-offsets", f"{text} {has}", tuple(indexes), frozenset({value}))
