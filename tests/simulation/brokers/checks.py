"""Checks at the end of a world, when all clients have written and read everything."""

from __future__ import annotations

from collections.abc import Mapping

from tests.simulation.brokers.model import Model
from tests.simulation.brokers.transactions import Outcome
from tests.simulation.violation import Violation

from klamm.protocol.types import TopicPartition

__all__ = ["check_all_read", "check_batches"]


def check_all_read(
    model: Model, name: str, where: TopicPartition, shown: Mapping[int, bytes], *, is_committed: bool
) -> None:
    """Checks that a reader at the end of a partition got exactly the expected records, deleted ones aside (I4, I26)."""
    partition = model.partitions[where]
    shown = {offset: value for offset, value in shown.items() if offset >= partition.deleted}
    expected = {}
    for offset, value in partition.known.items():
        if value is not None and offset >= partition.deleted:
            transaction = partition.of_value[value].transaction
            if not is_committed or transaction is None or transaction.outcome is Outcome.COMMITTED:
                expected[offset] = value
    if shown != expected:
        missing = {offset: value for offset, value in expected.items() if offset not in shown}
        other = {offset: value for offset, value in shown.items() if expected.get(offset) != value}
        raise Violation(
            26, f"{name} has read {where}; it lacks {_some(missing)}, and has {_some(other)} that should not be"
        )


def check_batches(model: Model) -> None:
    """Checks that each acknowledged batch is there in one piece; an idempotent batch is there once and in order (I4,
    I10).
    """
    for where, partition in model.partitions.items():
        offsets: dict[bytes, list[int]] = {}
        for offset in sorted(partition.known):
            value = partition.known[offset]
            if value is not None:
                offsets.setdefault(value, []).append(offset)
        last: dict[str, int] = {}
        for batch in partition.batches:
            at = [offsets.get(value, []) for value in batch.values]
            if len({len(each) for each in at}) != 1:
                raise Violation(9, f"{where} has only a part of {batch.values}: {at}")
            kept = [offset for offset in at[0] if offset >= partition.deleted]
            if len(kept) < len(at[0]):
                continue  # A producer whose batches are deleted may be forgotten, and write a batch again.
            if batch.is_idempotent and len(at[0]) > 1:
                raise Violation(10, f"{where} has {batch.values} several times, at {at}")
            if batch.first_offset is not None and batch.first_offset not in at[0]:
                raise Violation(4, f"{where} does not have {batch.values}, acknowledged at {batch.first_offset}")
            if batch.is_idempotent and at[0]:
                if at[0][0] < last.get(batch.producer, -1):
                    raise Violation(10, f"{where} has {batch.values} of {batch.producer} out of order, at {at}")
                last[batch.producer] = at[0][0]


def _some(records: Mapping[int, bytes]) -> str:
    return str(dict(list(records.items())[:5])) if records else "nothing"
