"""Two brokers over one metadata store: a broker resigns when another one leads, and leads again under a new epoch.

A broker that does not resign, or a coordinator that answers before it has loaded or after it has resigned, fails here.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.log_folder import read_all
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
from tests.support.two_brokers import NOW_MS, TwoBrokers

from klamm.broker.partitions.role import Role
from klamm.core.txn.markers import TransactionMarker
from klamm.protocol.compression import Compression
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.records import encode_batch
from klamm.protocol.schema.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from klamm.protocol.schema.delete_records_response import DeleteRecordsResponse
from klamm.protocol.schema.describe_producers_request import DescribeProducersRequest, TopicRequest
from klamm.protocol.schema.describe_producers_response import DescribeProducersResponse
from klamm.protocol.schema.heartbeat_request import HeartbeatRequest
from klamm.protocol.schema.heartbeat_response import HeartbeatResponse
from klamm.protocol.schema.init_producer_id_request import InitProducerIdRequest
from klamm.protocol.schema.init_producer_id_response import InitProducerIdResponse
from klamm.protocol.schema.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from klamm.protocol.schema.join_group_response import JoinGroupResponse
from klamm.protocol.schema.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from klamm.protocol.schema.list_offsets_response import ListOffsetsResponse
from klamm.protocol.schema.offset_commit_response import OffsetCommitResponse
from klamm.protocol.schema.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from klamm.protocol.schema.offset_for_leader_epoch_response import OffsetForLeaderEpochResponse
from klamm.protocol.schema.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from klamm.protocol.schema.write_txn_markers_response import WriteTxnMarkersResponse
from klamm.protocol.types import ProducerEpoch, ProducerId, TopicPartition
from klamm.storage.log_files import DELETED_DIRECTORY_SUFFIX

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


def join_request(member_id: str = "") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="group",
        member_id=member_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=LONG_MS,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


async def commit(brokers: TwoBrokers, node_id: int, offset: int) -> ErrorCode:
    answer = await brokers.ask(node_id, OffsetCommitResponse, 8, commit_request(offset))
    return ErrorCode(answer.topics[0].partitions[0].error_code)


# The partition


@pytest.mark.parametrize("partitions", [1, 300])
def test_parked_fetch_hears_of_the_resignation(tmp_path: Path, partitions: int) -> None:
    """A Fetch that waits for records gets NOT_LEADER_OR_FOLLOWER at once, with the new leader: a small request, and one
    whose partitions are read in steps."""

    async def scenario(brokers: TwoBrokers) -> None:
        await brokers.create(TOPIC, partitions)
        waiting = await begin(brokers.fetch(1, 12, fetch_request(partitions=partitions)))
        await brokers.move(TOPIC, 2, index=partitions - 1)
        answers = (await waiting).topics[0].partitions
        assert [each.error_code for each in answers] == [0] * (partitions - 1) + [NOT_LEADER]

    run(tmp_path, scenario)


def test_fetch_names_the_new_leader(tmp_path: Path) -> None:
    """A Fetch to the broker that led before gets the leader and its epoch, from version 16 (KIP-951)."""

    async def scenario(brokers: TwoBrokers) -> None:
        await brokers.create(TOPIC)
        topic_id = brokers.context(1).metadata.image.topics[TOPIC].topic_id
        await brokers.move(TOPIC, 2)
        image = brokers.context(1).metadata.image.topics[TOPIC].partitions[0]
        request = fetch_request(wait_ms=0)
        request = request._replace(topics=[request.topics[0]._replace(name=None, topic_id=topic_id)])
        answer = await brokers.fetch(1, 17, request)
        assert answer.topics[0].partitions[0].current_leader == (2, image.leader_epoch)
        assert [node.node_id for node in answer.node_endpoints] == [2]

    run(tmp_path, scenario)


@pytest.mark.parametrize("partitions", [1, 120])
def test_parked_produce_hears_of_the_resignation(tmp_path: Path, disk: SlowDisk, partitions: int) -> None:
    """A Produce with acks=all that waits for the disk gets NOT_LEADER_OR_FOLLOWER, although its batch is in the log:
    the sync that ends later commits nothing, until this broker leads again."""

    async def scenario(brokers: TwoBrokers) -> None:
        await brokers.create(TOPIC, partitions)
        held = brokers.partition(1, TOPIC)
        disk.may_pass.clear()
        request = produce_request(*[batch()] * partitions)
        waiting = await begin(brokers.produce(1, 9, request))
        await brokers.move(TOPIC, 2, replicas=[2, 1])
        disk.may_pass.set()
        codes = [each.error_code for each in (await waiting).topics[0].partitions]
        assert codes == [NOT_LEADER] + [0] * (partitions - 1)
        assert (held.log.high_watermark, held.log.log_end_offset) == (0, 1)
        await brokers.move(TOPIC, 1)
        answer = await brokers.fetch(1, 12, fetch_request(wait_ms=LONG_MS))
        assert answer.topics[0].partitions[0].high_watermark == 1

    run(tmp_path, scenario, klamm_fsync="ack")


def test_parked_marker_hears_of_the_resignation(tmp_path: Path, disk: SlowDisk) -> None:
    """A transaction marker that waits for the disk gets NOT_LEADER_OR_FOLLOWER, so that its coordinator sends it to the
    new leader."""

    async def scenario(brokers: TwoBrokers) -> None:
        await brokers.create(TOPIC)
        disk.may_pass.clear()
        where = TopicPartition(TOPIC, brokers.partition(1, TOPIC).index)
        marker = TransactionMarker(ProducerId(7), ProducerEpoch(0), 0, True, (where,), 2)
        waiting = await begin(brokers.context(1).transaction_markers.write_markers(marker))
        await brokers.move(TOPIC, 2)
        disk.may_pass.set()
        assert await waiting == {where: NOT_LEADER}

    run(tmp_path, scenario, klamm_fsync="ack")


def test_batch_that_is_being_opened_is_not_appended_after_the_resignation(tmp_path: Path) -> None:
    """A batch that a thread opens when this broker resigns is refused, and is not in the log."""
    large = encode_batch([(NOW_MS, b"key", bytes(600_000), ())], compression=Compression.GZIP)

    async def scenario(brokers: TwoBrokers) -> None:
        await brokers.create(TOPIC, configs={"cleanup.policy": "compact"})
        log = brokers.partition(1, TOPIC).log
        opening = brokers.hold_openings(1)
        waiting = await begin(brokers.produce(1, 9, produce_request(large)))
        await brokers.move(TOPIC, 2)
        opening.set()
        assert [each.error_code for each in (await waiting).topics[0].partitions] == [NOT_LEADER]
        assert log.log_end_offset == 0

    run(tmp_path, scenario)


def test_held_partition_refuses_after_the_resignation(tmp_path: Path) -> None:
    """A `Partition` that code holds across a resignation refuses appends and checks, also when this broker leads
    again: the new leadership has its own."""

    async def scenario(brokers: TwoBrokers) -> None:
        await brokers.create(TOPIC)
        held = brokers.partition(1, TOPIC)
        held.append(batch(), NOW_MS)
        for leader, follower in ((2, 1), (1, 2)):
            await brokers.move(TOPIC, leader, replicas=[leader, follower])
            for act in (
                lambda: held.append(batch(), NOW_MS),
                held.check_in_sync_replicas,
                lambda: held.check_leader_epoch(-1),
            ):
                with pytest.raises(KafkaError) as refused:
                    act()
                assert refused.value.code is NOT_LEADER
        again = brokers.partition(1, TOPIC)
        again.append(batch(b"second"), NOW_MS)
        assert [record.value for record in read_all(again.log)] == [b"value", b"second"]
        assert again.log.leader_epochs[-1].epoch == again.leader_epoch > held.leader_epoch

    run(tmp_path, scenario)


@pytest.mark.parametrize("is_replica", [False, True])
def test_requests_for_a_partition_that_is_led_elsewhere(tmp_path: Path, is_replica: bool) -> None:
    """Each API refuses with Kafka's code: NOT_LEADER_OR_FOLLOWER, but WriteTxnMarkers UNKNOWN_TOPIC_OR_PARTITION on a
    broker without a replica. A replica serves Fetch (KIP-392), and compares the leader epoch of the client first."""

    async def scenario(brokers: TwoBrokers) -> None:
        await brokers.create(TOPIC)
        epoch = brokers.partition(1, TOPIC).leader_epoch
        await brokers.move(TOPIC, 2, replicas=[2, 1] if is_replica else [2])
        registry = brokers.context(1).partitions
        assert registry.role(TOPIC, 0) is (Role.FOLLOWER if is_replica else Role.NOT_HERE)
        codes = await _codes_of_each_api(brokers, -1)
        assert codes.pop("WriteTxnMarkers") == (NOT_LEADER if is_replica else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assert codes.pop("DescribeProducers") == (ErrorCode.NONE if is_replica else NOT_LEADER)
        assert codes.pop("Fetch") == (ErrorCode.NONE if is_replica else NOT_LEADER)
        assert set(codes.values()) == {NOT_LEADER}
        fenced = ErrorCode.FENCED_LEADER_EPOCH if is_replica else NOT_LEADER
        codes = await _codes_of_each_api(brokers, epoch)
        assert {codes[name] for name in ("Fetch", "ListOffsets", "OffsetForLeaderEpoch")} == {fenced}

    run(tmp_path, scenario)


async def _codes_of_each_api(brokers: TwoBrokers, epoch: int) -> dict[str, ErrorCode]:
    listed = await brokers.ask(
        1,
        ListOffsetsResponse,
        7,
        ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(
                    name=TOPIC,
                    partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1, current_leader_epoch=epoch)],
                )
            ],
        ),
    )
    ended = await brokers.ask(
        1,
        OffsetForLeaderEpochResponse,
        4,
        OffsetForLeaderEpochRequest(
            topics=[
                OffsetForLeaderTopic(
                    topic=TOPIC,
                    partitions=[OffsetForLeaderPartition(partition=0, current_leader_epoch=epoch, leader_epoch=0)],
                )
            ]
        ),
    )
    deleted = await brokers.ask(
        1,
        DeleteRecordsResponse,
        2,
        DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=TOPIC, partitions=[DeleteRecordsPartition(partition_index=0, offset=0)])],
            timeout_ms=LONG_MS,
        ),
    )
    described = await brokers.ask(
        1,
        DescribeProducersResponse,
        0,
        DescribeProducersRequest(topics=[TopicRequest(name=TOPIC, partition_indexes=[0])]),
    )
    marker = WritableTxnMarker(
        producer_id=7,
        producer_epoch=0,
        transaction_result=True,
        topics=[WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[0])],
        coordinator_epoch=0,
    )
    marked = await brokers.ask(1, WriteTxnMarkersResponse, 1, WriteTxnMarkersRequest(markers=[marker]))
    produced = await brokers.produce(1, 9, produce_request(batch()))
    fetched = await brokers.fetch(1, 12, fetch_request(epoch=epoch, wait_ms=0))
    codes = {
        "Produce": produced.topics[0].partitions[0].error_code,
        "Fetch": fetched.topics[0].partitions[0].error_code,
        "ListOffsets": listed.topics[0].partitions[0].error_code,
        "OffsetForLeaderEpoch": ended.topics[0].partitions[0].error_code,
        "DeleteRecords": deleted.topics[0].partitions[0].error_code,
        "DescribeProducers": described.topics[0].partitions[0].error_code,
        "WriteTxnMarkers": marked.markers[0].topics[0].partitions[0].error_code,
    }
    return {name: ErrorCode(code) for name, code in codes.items()}


# Folders


def test_only_replicas_have_a_log(tmp_path: Path) -> None:
    """A broker creates logs only for partitions of which it is a replica. The log of a partition that has moved away is
    deleted, those of a topic go with it."""

    def folders(node_id: int) -> list[str]:
        names = sorted(path.name for path in (tmp_path / str(node_id)).glob(f"{TOPIC}-*"))
        return [name for name in names if not name.endswith(DELETED_DIRECTORY_SUFFIX)]

    async def scenario(brokers: TwoBrokers) -> None:
        await brokers.create(TOPIC, 2)
        assert (folders(1), folders(2)) == (["orders-0", "orders-1"], [])
        await brokers.move(TOPIC, 2)
        await brokers.until(lambda: folders(1) == ["orders-1"])
        assert folders(2) == ["orders-0"]
        metadata = brokers.context(1).metadata
        await metadata.delete_topics({metadata.image.topics[TOPIC].topic_id: TOPIC})
        await brokers.settle()
        assert (folders(1), folders(2)) == ([], [])

    run(tmp_path, scenario)


# Coordinators


def test_parked_group_requests_hear_of_the_resignation(tmp_path: Path, disk: SlowDisk) -> None:
    """JoinGroup that waits for members, and a commit that waits for the disk, get NOT_COORDINATOR."""

    async def scenario(brokers: TwoBrokers) -> None:
        await brokers.create(TOPIC)
        await brokers.create_internal(OFFSETS)
        member_id = (await brokers.ask(1, JoinGroupResponse, 9, join_request())).member_id
        joining = await begin(brokers.ask(1, JoinGroupResponse, 9, join_request(member_id)))
        disk.may_pass.clear()
        committing = await begin(brokers.ask(1, OffsetCommitResponse, 8, commit_request(5, "other")))
        await brokers.move(OFFSETS, 2)
        disk.may_pass.set()
        assert (await joining).error_code == ErrorCode.NOT_COORDINATOR
        assert (await committing).topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR

    run(tmp_path, scenario, klamm_fsync="ack", group_initial_rebalance_delay_ms=LONG_MS)


def test_coordinator_moves_and_comes_back_with_its_offsets(tmp_path: Path) -> None:
    """Only the leader of the partition coordinates the group. When leadership comes back, the offsets are loaded from
    the log that stayed; a heartbeat that could be repeated before is decided again."""

    async def scenario(brokers: TwoBrokers) -> None:
        await brokers.create(TOPIC)
        await brokers.create_internal(OFFSETS)
        assert await commit(brokers, 1, 5) is ErrorCode.NONE
        assert await commit(brokers, 2, 6) is ErrorCode.NOT_COORDINATOR
        await brokers.move(OFFSETS, 2, replicas=[2, 1])
        await brokers.shrink(OFFSETS, replicas=[2, 1], isr=[2])
        assert await commit(brokers, 1, 7) is ErrorCode.NOT_COORDINATOR
        assert await committed(brokers, 1) == (ErrorCode.NOT_COORDINATOR, -1)
        heartbeat = HeartbeatRequest(group_id="group", generation_id=1, member_id="m")
        assert (await brokers.ask(1, HeartbeatResponse, 4, heartbeat)).error_code == ErrorCode.NOT_COORDINATOR
        assert await commit(brokers, 2, 8) is ErrorCode.NONE
        await brokers.move(OFFSETS, 1, replicas=[1, 2])
        assert await committed(brokers, 1) == (ErrorCode.NONE, 5)
        assert await committed(brokers, 2) == (ErrorCode.NOT_COORDINATOR, -1)

    run(tmp_path, scenario)


def test_only_a_new_leader_epoch_loads_the_groups_again(tmp_path: Path) -> None:
    """A change of replicas or in-sync replicas leaves a waiting JoinGroup alone; a new leader epoch of the partition
    that this broker continues to lead ends it with NOT_COORDINATOR, because another broker may have led in between."""

    async def scenario(brokers: TwoBrokers) -> None:
        await brokers.create_internal(OFFSETS)
        member_id = (await brokers.ask(1, JoinGroupResponse, 9, join_request())).member_id
        joining = await begin(brokers.ask(1, JoinGroupResponse, 9, join_request(member_id)))
        await brokers.shrink(OFFSETS, [1, 2], [1])
        assert not joining.done()
        await brokers.move(OFFSETS, 1)
        assert (await joining).error_code == ErrorCode.NOT_COORDINATOR

    run(tmp_path, scenario, group_initial_rebalance_delay_ms=LONG_MS)


def test_transactions_move_with_their_partition(tmp_path: Path) -> None:
    """Only the leader of the partition coordinates transactions, under the leader epoch as its coordinator epoch."""

    async def scenario(brokers: TwoBrokers) -> None:
        await brokers.create_internal(TRANSACTIONS)

        async def init(node_id: int) -> ErrorCode:
            request = InitProducerIdRequest(transactional_id="id", transaction_timeout_ms=1000)
            return ErrorCode((await brokers.ask(node_id, InitProducerIdResponse, 5, request)).error_code)

        assert await init(1) is ErrorCode.NONE
        assert await init(2) is ErrorCode.NOT_COORDINATOR
        await brokers.move(TRANSACTIONS, 2)
        assert await init(1) is ErrorCode.NOT_COORDINATOR
        assert await init(2) is ErrorCode.NONE

    run(tmp_path, scenario)
