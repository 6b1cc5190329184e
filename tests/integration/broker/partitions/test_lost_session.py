"""A broker whose session with the metadata store has ended acknowledges nothing more."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from tests.support.partition_requests import (
    LONG_MS,
    TOPIC,
    batch,
    begin,
    commit_request,
    committed,
    fetch_request,
    produce_request,
    run,
)
from tests.support.slow_disk import SlowDisk
from tests.support.two_brokers import TwoBrokers

from klamm.core.txn.markers import TransactionMarker
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from klamm.protocol.schema.delete_records_response import DeleteRecordsResponse
from klamm.protocol.schema.heartbeat_request import HeartbeatRequest
from klamm.protocol.schema.heartbeat_response import HeartbeatResponse
from klamm.protocol.schema.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from klamm.protocol.schema.list_offsets_response import ListOffsetsResponse
from klamm.protocol.schema.offset_commit_response import OffsetCommitResponse
from klamm.protocol.types import PartitionIndex, ProducerEpoch, ProducerId, TopicPartition

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
OFFSETS = "__consumer_offsets"


async def _produce(brokers: TwoBrokers, acks: int) -> int:
    answer = await brokers.produce(1, 9, produce_request(batch(), acks=acks))
    return answer.topics[0].partitions[0].error_code


@pytest.mark.parametrize("acks", [1, -1])
def test_writes_are_refused_and_reads_continue(tmp_path: Path, caplog: pytest.LogCaptureFixture, acks: int) -> None:
    """Produce, DeleteRecords and transaction markers get NOT_LEADER_OR_FOLLOWER; Fetch and ListOffsets are answered up
    to the high watermark. One line in the log says why."""

    async def scenario(brokers: TwoBrokers) -> None:
        await brokers.create(TOPIC)
        assert await _produce(brokers, acks) == ErrorCode.NONE
        await brokers.lose_session(1)
        assert await _produce(brokers, acks) == NOT_LEADER
        delete = DeleteRecordsRequest(
            timeout_ms=1000,
            topics=[DeleteRecordsTopic(name=TOPIC, partitions=[DeleteRecordsPartition(partition_index=0, offset=1)])],
        )
        deleted = await brokers.ask(1, DeleteRecordsResponse, 2, delete)
        assert deleted.topics[0].partitions[0].error_code == NOT_LEADER
        where = TopicPartition(TOPIC, PartitionIndex(0))
        marker = TransactionMarker(ProducerId(7), ProducerEpoch(0), 0, True, (where,), 2)
        assert await brokers.context(1).transaction_markers.write_markers(marker) == {where: NOT_LEADER}
        (read,) = (await brokers.fetch(1, 12, fetch_request(wait_ms=0))).topics[0].partitions
        assert (read.error_code, read.high_watermark) == (ErrorCode.NONE, 1)
        ends = ListOffsetsRequest(
            replica_id=-1,
            topics=[ListOffsetsTopic(name=TOPIC, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])],
        )
        (end,) = (await brokers.ask(1, ListOffsetsResponse, 7, ends)).topics[0].partitions
        assert (end.error_code, end.offset) == (ErrorCode.NONE, 1)

    with caplog.at_level(logging.ERROR, "klamm"):
        run(tmp_path, scenario)
    assert [record.message for record in caplog.records] == [
        "broker 1 has lost its session with the metadata store: it refuses writes and coordinates no groups until it "
        "is started again"
    ]


@pytest.mark.parametrize("partitions", [1, 120])
def test_a_waiting_write_is_not_acknowledged(tmp_path: Path, disk: SlowDisk, partitions: int) -> None:
    """A Produce that waits for the disk when the session ends gets NOT_LEADER_OR_FOLLOWER, and the sync that ends later
    commits nothing: the high watermark stands still."""

    async def scenario(brokers: TwoBrokers) -> None:
        await brokers.create(TOPIC, partitions)
        disk.may_pass.clear()
        waiting = await begin(brokers.produce(1, 9, produce_request(*[batch()] * partitions)))
        await brokers.lose_session(1)
        disk.may_pass.set()
        assert {each.error_code for each in (await waiting).topics[0].partitions} == {NOT_LEADER}
        log = brokers.partition(1, TOPIC).log
        assert (log.high_watermark, log.log_end_offset) == (0, 1)

    run(tmp_path, scenario, klamm_fsync="ack")


def test_groups_are_coordinated_no_more(tmp_path: Path) -> None:
    """Heartbeats, commits and reads of offsets get NOT_COORDINATOR: another broker may have newer offsets."""

    async def scenario(brokers: TwoBrokers) -> None:
        await brokers.create(TOPIC)
        await brokers.create_internal(OFFSETS)
        answer = await brokers.ask(1, OffsetCommitResponse, 8, commit_request(5))
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
        await brokers.lose_session(1)
        answer = await brokers.ask(1, OffsetCommitResponse, 8, commit_request(6))
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
        assert await committed(brokers, 1) == (ErrorCode.NOT_COORDINATOR, -1)
        heartbeat = HeartbeatRequest(group_id="group", generation_id=1, member_id="m")
        assert (await brokers.ask(1, HeartbeatResponse, 4, heartbeat)).error_code == ErrorCode.NOT_COORDINATOR

    run(tmp_path, scenario, group_initial_rebalance_delay_ms=LONG_MS)


def test_nothing_is_led_newly(tmp_path: Path) -> None:
    """A partition that the metadata give to the broker after its session has ended is not led by it."""

    async def scenario(brokers: TwoBrokers) -> None:
        await brokers.create(TOPIC, leader=2)
        await brokers.lose_session(1)
        await brokers.move(TOPIC, 1)
        assert await _produce(brokers, -1) == NOT_LEADER

    run(tmp_path, scenario)
