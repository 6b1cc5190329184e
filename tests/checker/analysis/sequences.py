"""Sequences: the batches of a partition are contiguous, and so are a producer's batches in one epoch (I1, I10, I14).

The data are the headers of the batches in the log. A broker accepts a batch of an idempotent producer only if it
follows the batch before it, and accepts no batch of a fenced epoch.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.checker.anomaly import Anomaly
from tests.checker.facts import Facts
from tests.checker.history import Origin

__all__ = ["find"]

_SEQUENCES = 2**31


def find(facts: Facts) -> Iterator[Anomaly]:
    """Yields `offset-gap` for offsets between two batches that belong to no batch.

    Yields `sequence-gap` if a batch does not follow its producer's previous batch, and `stale-epoch` if it has an
    earlier epoch than the previous batch. Yields `inconsistent-offsets` for different batches at one offset.
    """
    for partition, batches in facts.origins.items():
        for offset, found in batches.items():
            if len(found) > 1:
                yield Anomaly("inconsistent-offsets", f"{partition} has different batches at {offset}: {found}", ())
        end = 0
        last: dict[int, Origin] = {}
        for offset in sorted(batches):
            this = batches[offset][-1]
            if offset != end:
                yield Anomaly(
                    "offset-gap", f"{partition} has a batch at {offset}, and the one before it ends at {end}", ()
                )
            end = this[1] + 1
            producer_id, sequence = this[2], this[4]
            # Plain producers and transaction markers have no sequence.
            if producer_id >= 0 and sequence >= 0:
                before = last.get(producer_id)
                last[producer_id] = this
                if before is not None:
                    yield from _follows(partition, before, this)


def _follows(partition: str, before: Origin, this: Origin) -> Iterator[Anomaly]:
    first, _, producer_id, epoch, sequence = this
    text = f"{partition} has at {first} a batch of producer {producer_id}"
    expected = (before[4] + before[1] - before[0] + 1) % _SEQUENCES
    if epoch < before[3]:
        yield Anomaly("stale-epoch", f"{text} in epoch {epoch}, after one at {before[0]} in epoch {before[3]}", ())
    elif epoch == before[3] and sequence != expected:
        yield Anomaly(
            "sequence-gap", f"{text} with sequence {sequence}; after the one at {before[0]} comes {expected}", ()
        )
