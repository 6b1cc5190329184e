"""Tests changes of many partitions on request, where a transaction of the store has room for few."""

from __future__ import annotations

import asyncio

from tests.support.metadata_brokers import ENDPOINTS, connect

from klamm.metadata.image import PartitionImage
from klamm.metadata.memory_store import MemoryMetadata
from klamm.metadata.replicas.partition_change import Election
from klamm.metadata.replicas.reassignments import Reassignment
from klamm.metadata.service import NewTopic
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import PartitionIndex, TopicPartition

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def turned(partition: PartitionImage) -> Reassignment:
    return Reassignment("t", partition.index, partition.replicas[::-1])


def test_elections_in_several_transactions_tell_what_each_has_done() -> None:
    """If another broker changes a partition before the last transaction, only that transaction is decided again: the
    leaders that the earlier ones elected are told as elected. Outcomes are in the order of the request."""

    async def scenario() -> None:
        metadata = MemoryMetadata(maximum_operations=10)
        connected = [await connect(metadata, broker_id) for broker_id in (1, 2, 3)]
        for service, _ in connected:
            await service.start_broker(ENDPOINTS)
        (one, store), (two, _), _ = connected
        partitions = (await one.ensure_topic(NewTopic("t", partitions=12, replication_factor=2))).partitions
        wanted = [*map(turned, partitions), Reassignment("t", 99, [1, 2])]
        results = await one.replicas.reassign(wanted, allows_other_factor=True)
        assert [NONE if error is None else error.code for error in results] == [NONE] * 12 + [UNKNOWN]

        may_go_on = store.held_at[store.transactions + 2] = asyncio.Event()
        electing = asyncio.ensure_future(
            one.replicas.elect(
                [TopicPartition("t", PartitionIndex(index)) for index in (99, *range(12))], Election.PREFERRED
            )
        )
        await store.held.wait()
        last = two.image.topics["t"].partitions[-1]
        assert await two.replicas.reassign([turned(last)], allows_other_factor=True) == [None]
        may_go_on.set()
        codes = [code for code, _ in await electing]
        assert codes == [UNKNOWN] + [NONE] * 11 + [ErrorCode.ELECTION_NOT_NEEDED]
        leaders = [each.leader for each in one.image.topics["t"].partitions]
        assert leaders == [*(each.replicas[1] for each in partitions[:-1]), partitions[-1].leader]
        for service, _ in connected:
            await service.close()

    asyncio.run(scenario())
