"""Tests how a Produce for many partitions, or of many megabytes, is divided into steps."""

from __future__ import annotations

from klamm.broker.partitions import wide_produce
from klamm.broker.partitions.wide_produce import BYTES_AT_ONCE, PARTITIONS_AT_ONCE, Wanted

TOPICS = 3


def sizes_of_steps(partitions: int, batch_bytes: int) -> list[tuple[int, int]]:
    """Returns the number of batches and of bytes that are appended in each step, for this many partitions of each
    topic."""
    batch = memoryview(bytes(batch_bytes))
    wanted: Wanted = {(f"topic-{number}", None): dict.fromkeys(range(partitions), batch) for number in range(TOPICS)}
    steps = []
    for part in wide_produce._parts(wanted):
        batches = [records for topic in part for _, records in topic.partitions]
        steps.append((len(batches), sum(len(records or b"") for records in batches)))
    assert sum(count for count, _ in steps) == TOPICS * partitions
    return steps


def test_a_step_appends_few_partitions_and_few_bytes() -> None:
    """Small batches are divided by their number, large ones by their size."""
    assert max(sizes_of_steps(100, 10)) == (PARTITIONS_AT_ONCE, 10 * PARTITIONS_AT_ONCE)
    assert max(sizes_of_steps(100, 300_000)) == (4, 1_200_000)
    assert sizes_of_steps(2, BYTES_AT_ONCE) == [(1, BYTES_AT_ONCE)] * 2 * TOPICS
