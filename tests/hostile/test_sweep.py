"""Tests the largest requests of every API in every version: no request blocks the event loop.

The test measures each step of the loop by its processor time, so it finds long calls of C code as well as long loops of
Python code. A step that is too slow is slow each time, so each request has several attempts. In the gate, each commit
tests a quarter of the older versions.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Any

import pytest
from tests.hostile.largest_requests import TOPIC, LargestRequest, largest_requests
from tests.hostile.loop_watch import WatchedBroker, processor_slowness
from tests.support.patience import Limit
from tests.support.share_of_gate import is_in_share_of_gate, share_of_gate
from tests.support.wire import Wire

from klamm.broker.network.dispatch import ACCEPTED_VERSIONS
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.create_topics_request import CreatableTopic, CreateTopicsRequest
from klamm.protocol.schema.create_topics_response import CreateTopicsResponse
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.find_coordinator_response import FindCoordinatorResponse
from klamm.protocol.schema.init_producer_id_request import InitProducerIdRequest
from klamm.protocol.schema.init_producer_id_response import InitProducerIdResponse
from klamm.protocol.schema.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.schema.offset_commit_response import OffsetCommitResponse

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="processor time of a thread is looked up in /proc"),
    pytest.mark.timeout(900),
]

LIMIT_MS = 10
ATTEMPTS = 4
FRAME_BYTES = 64 * 1024
"""The frame size in older versions: about ten thousand elements, for which a microsecond each is too long."""
LARGE_FRAME_BYTES = 640 * 1024
"""The frame size in the newest version. In most APIs, it has room for as many elements as a request may have. This
shows single operations whose time grows with the elements."""
PATIENCE_S = 600
"""The largest answer takes 13 seconds of processor time, and many times as long on a busy machine."""
CONFIG = {"group.initial.rebalance.delay.ms": "0"}


GROUP, TRANSACTION = 0, 1
NOT_YET = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}
TOPICS = 2000
PARTITIONS = 4
GROUPS = 4000
TRANSACTIONAL_IDS = 2000


def inhabit(wire: Wire) -> None:
    """Creates topics, groups and transactions, because some requests ask for all of them."""
    topics = [
        CreatableTopic(name=f"inhabitant-{index}", num_partitions=PARTITIONS, replication_factor=1)
        for index in range(TOPICS)
    ]
    topics.append(CreatableTopic(name=TOPIC, num_partitions=3, replication_factor=1))
    answer = wire.call(CreateTopicsResponse, 7, CreateTopicsRequest(topics=topics, timeout_ms=60_000))
    assert not any(topic.error_code for topic in answer.topics)

    place = OffsetCommitRequestTopic(name=TOPIC, partitions=[OffsetCommitRequestPartition()])

    def commit(group: str) -> int:
        answer = wire.call(OffsetCommitResponse, 9, OffsetCommitRequest(group_id=group, topics=[place]))
        return answer.topics[0].partitions[0].error_code

    def begin(transaction: str) -> int:
        request = InitProducerIdRequest(transactional_id=transaction, transaction_timeout_ms=60_000)
        return wire.call(InitProducerIdResponse, 4, request).error_code

    for kind, count, make in ((GROUP, GROUPS, commit), (TRANSACTION, TRANSACTIONAL_IDS, begin)):
        wire.call(FindCoordinatorResponse, 4, FindCoordinatorRequest(key_type=kind, coordinator_keys=["0"]))
        limit = Limit(60)
        for index in range(count):
            while (code := make(f"inhabitant-{index}")) in NOT_YET and not limit.is_over:
                time.sleep(0.01)
            assert not code


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedBroker]:
    """A broker with the topic that the requests name, and with many other topics, groups and transactions."""
    broker = WatchedBroker(tmp_path_factory.mktemp("swept"), CONFIG)
    try:
        with Wire(broker.process.bootstrap_servers) as wire:
            wire.socket.settimeout(PATIENCE_S)
            inhabit(wire)
        yield broker
    finally:
        broker.process.stop()


def longest_step(broker: WatchedBroker, request: LargestRequest, body: bytes) -> Mapping[str, Any]:
    """Sends the request, and returns the report about the loop's steps."""
    broker.steps()
    with Wire(broker.process.bootstrap_servers) as wire:
        wire.socket.settimeout(PATIENCE_S)
        wire.exchange(request.key, request.version, body)
    return broker.steps()


@pytest.mark.parametrize(
    "key", share_of_gate(ACCEPTED_VERSIONS, 6, attrgetter("name")), ids=lambda key: key.name.lower()
)
def test_no_request_holds_up_the_loop(broker: WatchedBroker, key: ApiKey) -> None:
    """The broker answers a request in short steps when its array has the maximum of equal or of different elements."""
    lowest, highest = ACCEPTED_VERSIONS[key]
    for version in range(lowest, highest + 1):
        if version < highest and not is_in_share_of_gate(f"{key.name} {version}", 4):
            continue
        frame_bytes = LARGE_FRAME_BYTES if version == highest else FRAME_BYTES
        for request in largest_requests(key, version):
            reports = []
            body = request.body(frame_bytes)
            for _ in range(ATTEMPTS):
                reports.append(longest_step(broker, request, body))
                if reports[-1]["longest_ms"] < LIMIT_MS:
                    break
            else:
                best = min(reports, key=lambda report: report["longest_ms"])
                assert best["longest_ms"] < LIMIT_MS * processor_slowness(), f"{request}: {best['longest'][0]}"
