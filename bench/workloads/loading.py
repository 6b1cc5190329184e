"""How long a coordinator takes to load 1,000,000 committed offsets of 10,000 groups, and how much memory they need.

The offsets are committed over the wire to one partition of `__consumer_offsets`; then the broker is stopped and started
again on its folder. The time counts from the creation of the process to the first response with the last group's
offsets, since a broker may load before it responds to any request. Another client requests metadata from the first
response on: its slowest response shows how loading affects other clients.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.measure import resident_bytes
from bench.peers import Peer, RunningPeer
from bench.wire import Connection, wait_for_coordinator
from bench.workload import Figure, LifeWorkload, Load
from klamm.protocol.schema.metadata_request import MetadataRequest
from klamm.protocol.schema.metadata_response import MetadataResponse
from klamm.protocol.schema.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.schema.offset_commit_response import OffsetCommitResponse
from klamm.protocol.schema.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from klamm.protocol.schema.offset_fetch_response import OffsetFetchResponse

__all__ = ["WORKLOAD"]

_GROUPS = 10_000
_PARTITIONS = 100
_TOPIC = "read-by-many"
_CONFIG = {"offsets.topic.num.partitions": "1", "group.initial.rebalance.delay.ms": "0"}
_COMMIT_VERSION = 7
_FETCH_VERSION = 5
_METADATA_VERSION = 1
_NO_TOPIC = "it keeps no offsets in __consumer_offsets"


def _commits(groups: int) -> Iterator[OffsetCommitRequest]:
    for number in range(groups):
        partitions = [
            OffsetCommitRequestPartition(partition_index=index, committed_offset=1_000_000 + number + index)
            for index in range(_PARTITIONS)
        ]
        yield OffsetCommitRequest(
            group_id=f"group-{number}", topics=[OffsetCommitRequestTopic(name=_TOPIC, partitions=partitions)]
        )


def _fill(running: RunningPeer, groups: int) -> None:
    running.create_topic(_TOPIC, _PARTITIONS)
    with Connection(running.bootstrap_servers) as connection:
        wait_for_coordinator(connection)
        for answer in connection.ask_all(OffsetCommitResponse, _COMMIT_VERSION, _commits(groups)):
            codes = {partition.error_code for topic in answer.topics for partition in topic.partitions}
            if codes != {0}:
                raise RuntimeError(f"a commit failed: {codes}")


def _wait_until_loaded(running: RunningPeer, groups: int) -> None:
    last = OffsetFetchRequest(
        group_id=f"group-{groups - 1}",
        topics=[OffsetFetchRequestTopic(name=_TOPIC, partition_indexes=[_PARTITIONS - 1])],
    )
    deadline = time.monotonic() + 120
    with Connection(running.bootstrap_servers) as connection:
        while time.monotonic() < deadline:
            (answer,) = connection.ask_all(OffsetFetchResponse, _FETCH_VERSION, [last])
            if not answer.error_code and answer.topics[0].partitions[0].committed_offset >= 0:
                return
            time.sleep(0.005)
    raise TimeoutError("the groups were not loaded within two minutes")


class _Bystander(threading.Thread):
    """Another client with other requests. `slowest_seconds` is its longest wait for a response."""

    def __init__(self, running: RunningPeer) -> None:
        super().__init__(daemon=True)
        self._address = running.bootstrap_servers
        self.is_over = False
        self.slowest_seconds = 0.0

    def run(self) -> None:
        with Connection(self._address) as connection:
            while not self.is_over:
                asked_at = time.perf_counter()
                connection.ask_all(MetadataResponse, _METADATA_VERSION, [MetadataRequest(topics=[])])
                self.slowest_seconds = max(self.slowest_seconds, time.perf_counter() - asked_at)
                time.sleep(0.001)


def _measure(peer: Peer, folder: Path, load: Load) -> Mapping[str, float]:
    groups = load.scaled(_GROUPS)
    empty = folder / "empty"
    empty.mkdir()
    running = peer.start(empty, _CONFIG)
    try:
        time.sleep(1)
        idle = resident_bytes(running.process_id)
    finally:
        running.stop()
    running = peer.start(folder, _CONFIG)
    try:
        _fill(running, groups)
    finally:
        running.stop()
    running = peer.start(folder, _CONFIG)
    bystander = _Bystander(running)
    try:
        started = time.monotonic()
        bystander.start()
        _wait_until_loaded(running, groups)
        seconds = time.monotonic() - started
        bystander.is_over = True
        bystander.join()
        loaded = resident_bytes(running.process_id)
    finally:
        running.stop()
    return {
        "seconds": running.seconds_to_first_answer + seconds * _GROUPS / groups,
        "loading_seconds": seconds * _GROUPS / groups,
        "slowest_ms": bystander.slowest_seconds * 1000,
        "bytes_per_offset": max(loaded - idle, 0) / groups / _PARTITIONS,
    }


WORKLOAD = LifeWorkload(
    name="loading",
    title="Restart with 1,000,000 offsets of 10,000 groups",
    figures=(
        Figure("seconds", "start of the process until all offsets are loaded", "s", True, 1.0, limit=15),
        Figure("loading_seconds", "first Metadata answer until all offsets are loaded", "s", True),
        Figure("slowest_ms", "slowest answer to another client meanwhile", "ms", True),
        Figure("bytes_per_offset", "memory for each offset", "bytes", True, digits=0),
    ),
    rounds=2,
    without={"tansu": _NO_TOPIC, "mock": _NO_TOPIC},
    measure=_measure,
)
