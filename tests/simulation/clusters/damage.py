"""Damaged answers between brokers: in some answers to a follower's Fetch, one bit of a batch is flipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Final
from unittest.mock import patch

from klamm.broker.replication.leader_fetcher import LeaderFetcher
from klamm.protocol.record_batch import iterate_batches
from klamm.protocol.schema.fetch_response import FetchResponse, PartitionData

__all__ = ["damaging"]

_FIRST_CHECKED: Final = 21
"""The CRC of a batch covers the bytes from here on."""


@contextmanager
def damaging(random: Random, note: Callable[[str], None], rate: Callable[[], float]) -> Iterator[None]:
    """Damages the records of a partition with the present `rate`."""
    apply = LeaderFetcher._apply

    async def damage_and_apply(fetcher: LeaderFetcher, response: FetchResponse) -> None:
        for topic in response.responses:
            for data in topic.partitions:
                if data.records and random.random() < rate():
                    note("a batch is damaged on its way between brokers")
                    _damage(random, data)
        await apply(fetcher, response)

    with patch.object(LeaderFetcher, "_apply", damage_and_apply):
        yield


def _damage(random: Random, data: PartitionData) -> None:
    assert data.records is not None
    records = bytearray(data.records)
    batches = list(iterate_batches(memoryview(bytes(records))))
    if batches:
        position, header = random.choice(batches)
        records[position + random.randrange(_FIRST_CHECKED, header.size_bytes)] ^= 1 << random.randrange(8)
        data.records = bytes(records)
