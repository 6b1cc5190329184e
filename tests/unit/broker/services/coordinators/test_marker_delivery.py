"""Tests how the markers of a transaction reach the leaders of its partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from tests.support.event_loop import in_loop
from tests.unit.broker.services.coordinators.peer_world import OWN, PeerWorld, settle

from klamm.broker import time_slices
from klamm.broker.services.coordinators.marker_delivery import MarkerDelivery
from klamm.core.txn.markers import TransactionMarker
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Message
from klamm.protocol.schema.write_txn_markers_request import WriteTxnMarkersRequest
from klamm.protocol.schema.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from klamm.protocol.types import PartitionIndex, ProducerEpoch, ProducerId, TopicPartition

LEADERS = {"a": [1, 2, 3], "b": [2]}
DONE = ErrorCode.NONE

Outcomes = Mapping[TopicPartition, ErrorCode]


def partition(topic: str, index: int) -> TopicPartition:
    return TopicPartition(topic, PartitionIndex(index))


ALL = (partition("a", 0), partition("a", 1), partition("a", 2), partition("b", 0))


def marker(*partitions: TopicPartition, producer_id: int = 1) -> TransactionMarker:
    return TransactionMarker(
        ProducerId(producer_id), ProducerEpoch(4), 5, True, partitions, 2, transactional_id=f"id-{producer_id}"
    )


def response_to(request: Message, code: ErrorCode = DONE) -> WriteTxnMarkersResponse:
    """Returns this code for each partition of a request."""
    assert isinstance(request, WriteTxnMarkersRequest)
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=each.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in each.topics
                ],
            )
            for each in request.markers
        ]
    )


class World(PeerWorld):
    """The marker delivery of broker 1."""

    def __init__(self) -> None:
        super().__init__(LEADERS)
        self.answer = lambda broker_id, request: response_to(request)
        self.local: list[TransactionMarker] = []
        self.lost: set[str] = set()
        """The transactional ids that another broker coordinates by now."""
        self.delivery = MarkerDelivery(
            OWN,
            self,
            self.peers,
            image=lambda: self.image,
            is_coordinator=lambda transactional_id: transactional_id not in self.lost,
            spawn=self.spawn,
        )
        self.subscribers.append(self.delivery.on_metadata_update)

    async def write_markers(self, marker: TransactionMarker) -> Outcomes:
        """Writes the markers of partitions that broker 1 leads."""
        self.local.append(marker)
        return dict.fromkeys(marker.partitions, DONE)

    def deliver(self, marker: TransactionMarker) -> asyncio.Task[Outcomes]:
        """Starts a delivery."""
        return asyncio.ensure_future(self.delivery.write_markers(marker))

    def sent(self) -> list[tuple[int, dict[int, dict[str, list[int]]]]]:
        """Returns the requests: by broker, producer and topic."""
        return [
            (
                broker_id,
                {
                    each.producer_id: {topic.name: topic.partition_indexes for topic in each.topics}
                    for each in request.markers
                },
            )
            for broker_id, request in self.requests
            if isinstance(request, WriteTxnMarkersRequest)
        ]


@in_loop
async def test_each_leader_gets_the_marker_of_its_partitions() -> None:
    """The local partitions are written directly, those of each other broker in one request, with all facts."""
    world = World()
    assert await world.deliver(marker(*ALL)) == dict.fromkeys(ALL, DONE)
    assert [each.partitions for each in world.local] == [(ALL[0],)]
    assert sorted(world.sent()) == [(2, {1: {"a": [1], "b": [0]}}), (3, {1: {"a": [2]}})]
    request = world.requests[0][1]
    assert isinstance(request, WriteTxnMarkersRequest)
    (sent,) = request.markers
    found = (sent.producer_epoch, sent.coordinator_epoch, sent.transaction_result, sent.transaction_version)
    assert found == (4, 5, True, 2)


@in_loop
async def test_markers_of_several_transactions_travel_together() -> None:
    """Markers of different producers for one broker are in one request."""
    world = World()
    await asyncio.gather(*(world.deliver(marker(ALL[1], producer_id=number)) for number in (1, 2)))
    assert world.sent() == [(2, {1: {"a": [1]}, 2: {"a": [1]}})]


@in_loop
async def test_codes_of_the_other_broker_are_returned() -> None:
    """Each partition gets the code of its leader; one that the response leaves out gets UNKNOWN_SERVER_ERROR."""
    world = World()
    world.answer = lambda broker_id, request: (
        response_to(request, ErrorCode.NOT_LEADER_OR_FOLLOWER) if broker_id == 2 else WriteTxnMarkersResponse()
    )
    assert await world.deliver(marker(*ALL)) == {
        ALL[0]: DONE,
        ALL[1]: ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ALL[2]: ErrorCode.UNKNOWN_SERVER_ERROR,
        ALL[3]: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }


@in_loop
async def test_a_broken_connection_fails_the_markers_of_that_broker() -> None:
    """If a connection breaks, its markers may be written or not: they get NETWORK_EXCEPTION, the others their codes."""
    world = World()
    world.answer = lambda broker_id, request: None if broker_id == 2 else response_to(request)
    outcomes = await world.deliver(marker(*ALL))
    assert [outcomes[each] for each in ALL] == [DONE, ErrorCode.NETWORK_EXCEPTION, DONE, ErrorCode.NETWORK_EXCEPTION]


@in_loop
async def test_partitions_without_a_live_leader() -> None:
    """Partitions whose leader is away do not delay the others; those that do not exist are unknown."""
    world = World()
    world.show(LEADERS, live=(1, 3))
    outcomes = await world.deliver(marker(*ALL, partition("a", 9), partition("c", 0)))
    away, unknown = ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert list(map(outcomes.get, ALL)) == [DONE, away, DONE, away]
    assert outcomes[partition("a", 9)] is outcomes[partition("c", 0)] is unknown


@in_loop
async def test_a_marker_waits_for_the_leader_of_its_partition() -> None:
    """A marker whose partitions are all away is sent when one of the leaders is live; until then, nothing is sent."""
    world = World()
    world.show(LEADERS, live=(1,))
    delivered = world.deliver(marker(*ALL[1:]))
    await settle()
    world.show(LEADERS, live=(1,))
    await settle()
    assert not delivered.done()
    world.show(LEADERS, live=(1, 3))
    away = ErrorCode.LEADER_NOT_AVAILABLE
    assert await delivered == {ALL[1]: away, ALL[2]: DONE, ALL[3]: away}
    assert world.sent() == [(3, {1: {"a": [2]}})]


@pytest.mark.parametrize("turns", range(8))
def test_a_leader_that_is_back_while_the_partitions_are_looked_up(monkeypatch: pytest.MonkeyPatch, turns: int) -> None:
    """A change of the metadata is noticed at every moment, also while the leaders of many partitions are looked up."""
    monkeypatch.setattr(time_slices, "STEP_S", -1.0)  # other tasks run after each step

    async def scenario() -> None:
        world = World()
        leaders = {"a": [2] * 500}
        world.show(leaders, live=(1,))
        many = [partition("a", index) for index in range(500)]
        delivered = world.deliver(marker(*many))
        for _ in range(turns):
            await asyncio.sleep(0)
        world.show(leaders)
        assert set((await asyncio.wait_for(delivered, 5)).values()) <= {DONE, ErrorCode.LEADER_NOT_AVAILABLE}

    asyncio.run(scenario())


@in_loop
async def test_many_waiting_markers_are_sent_when_the_leader_is_back() -> None:
    """All markers that wait for a leader are sent when it is back; a change of other topics wakes none of them."""
    world = World()
    world.show(LEADERS, live=(1,))
    delivered = [world.deliver(marker(ALL[3], producer_id=number)) for number in range(350)]
    await settle()
    world.show({**LEADERS, "d": [1]}, live=(1,))
    await settle()
    world.show(LEADERS, live=(1, 2))
    assert await asyncio.gather(*delivered) == [{ALL[3]: DONE}] * 350
    assert sum(len(producers) for _, producers in world.sent()) == 350


@in_loop
async def test_a_wait_ends_with_the_topic() -> None:
    """A marker that waits gets UNKNOWN_TOPIC_OR_PARTITION when the topic is deleted."""
    world = World()
    world.show(LEADERS, live=(1,))
    delivered = world.deliver(marker(ALL[3]))
    await settle()
    world.show({"a": [1, 2, 3]}, live=(1,))
    assert await delivered == {ALL[3]: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


@in_loop
async def test_a_wait_ends_when_another_broker_coordinates_the_transaction() -> None:
    """A coordinator that has resigned stops to wait, and sends no marker that has not left."""
    world = World()
    world.show(LEADERS, live=(1,))
    delivered = world.deliver(marker(ALL[3]))
    await settle()
    world.lost.add("id-1")
    world.show({**LEADERS, "d": [1]}, live=(1,))
    assert await delivered == {ALL[3]: ErrorCode.NOT_COORDINATOR}
    world.show(LEADERS)
    assert await world.deliver(marker(ALL[3])) == {ALL[3]: ErrorCode.NOT_COORDINATOR}
    assert not world.sent()


@in_loop
async def test_a_marker_of_many_partitions_is_divided() -> None:
    """A marker of many partitions takes several requests, one after the other."""
    world = World()
    world.show({"a": [2] * 600})
    many = [partition("a", index) for index in range(600)]
    assert await world.deliver(marker(*many)) == dict.fromkeys(many, DONE)
    assert [len(producers[1]["a"]) for _, producers in world.sent()] == [250, 250, 100]


@in_loop
async def test_a_single_broker_writes_all_markers_itself() -> None:
    """As long as no other broker is registered, all markers are written locally."""
    world = World()
    world.image = type(world.image)()
    await world.deliver(marker(*ALL))
    assert [each.partitions for each in world.local] == [ALL]
