"""How fast a broker cleans 1 GB of 100-byte records with 1,000,000 keys, each of which was written ten times.

The records are written while the topic is not compacted. The time counts from the response to the change of
`cleanup.policy` until `cleaner-offset-checkpoint` shows that all but the active segment is clean. The cleaner finds the
work at once, since `log.cleaner.backoff.ms` is 100. The memory is the maximum of the whole process in that time.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Final

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from confluent_kafka.cimpl import NewTopic

from bench.measure import resident_bytes
from bench.peers import Peer, RunningPeer
from bench.workload import Figure, LifeWorkload, Load
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.headers import decode_response_header, encode_request_header
from klamm.protocol.produce import ProduceRequest, ProduceTopic
from klamm.protocol.produce_client import decode_produce_response, encode_produce_request
from klamm.protocol.record_batch import HEADER_SIZE_BYTES, pack_header, read_batch_header
from klamm.protocol.records import encode_batch

__all__ = ["WORKLOAD"]

_TOPIC: Final = "table"
_RECORDS: Final = 10_000_000
_KEYS: Final = 1_000_000
_RECORDS_IN_BATCH: Final = 160
_VALUE: Final = b"v" * 84  # with a key of eight bytes and the framing, a record has 100 bytes
_SEGMENT_BYTES: Final = 100 * 1024 * 1024
_CONFIG: Final = {"log.cleaner.backoff.ms": "100", "log.retention.ms": "-1"}
_VERSION: Final = 9
_WINDOW: Final = 50
_LONGEST_SECONDS: Final = 300
_NO_COMPACTION: Final = "it has no cleaner"


def _batches(records: int, keys: int) -> Iterator[bytes]:
    """Yields the batches. Every key occurs equally often, but never twice in a row."""
    pattern = b"\x00" * 8
    now_ms = int(time.time() * 1000)
    template = encode_batch([(now_ms, pattern, _VALUE, ())] * _RECORDS_IN_BATCH)
    header = read_batch_header(template)
    parts = template[HEADER_SIZE_BYTES:].split(pattern)
    assert len(parts) == _RECORDS_IN_BATCH + 1
    number = 0
    while number < records:
        payload = parts[0] + b"".join(
            struct.pack(">q", (number + index) * 618_033 % keys + 1) + part for index, part in enumerate(parts[1:])
        )
        yield pack_header(header, payload) + payload
        number += _RECORDS_IN_BATCH


def _receive(file: BinaryIO) -> ErrorCode:
    (size,) = struct.unpack(">i", file.read(4))
    view = memoryview(file.read(size))
    _, end = decode_response_header(ApiKey.PRODUCE, _VERSION, view)
    (partition,) = decode_produce_response(_VERSION, view[end:]).topics[0].partitions
    return ErrorCode(partition.error_code)


def _receive_success(file: BinaryIO) -> None:
    code = _receive(file)
    if code:
        raise RuntimeError(f"a batch was refused: {code.name}")


def _fill(running: RunningPeer, records: int, keys: int) -> None:
    host, port = running.bootstrap_servers.split(":")
    header = encode_request_header(ApiKey.PRODUCE, _VERSION, 1, "bench")
    under_way = 0
    with socket.create_connection((host, int(port)), timeout=60) as connection, connection.makefile("rb") as answers:
        for number, batch in enumerate(_batches(records, keys)):
            request = ProduceRequest(None, 1, 30_000, [ProduceTopic(_TOPIC, None, [(0, memoryview(batch))])])
            body = header + encode_produce_request(_VERSION, request)
            frame = struct.pack(">i", len(body)) + body
            connection.sendall(frame)
            if not number:
                while _receive(answers) is ErrorCode.NOT_LEADER_OR_FOLLOWER:  # the partition is still being created
                    connection.sendall(frame)
                continue
            under_way += 1
            if under_way == _WINDOW:
                _receive_success(answers)
                under_way -= 1
        for _ in range(under_way):
            _receive_success(answers)


class _Memory(threading.Thread):
    """Watches a process. `most_bytes` is its maximum memory so far."""

    def __init__(self, running: RunningPeer) -> None:
        super().__init__(daemon=True)
        self._process_id = running.process_id
        self.most_bytes = 0
        self.is_over = False

    def run(self) -> None:
        while not self.is_over:
            self.most_bytes = max(self.most_bytes, resident_bytes(self._process_id))
            time.sleep(0.05)


def _wait_until_clean(data: Path) -> int:
    """Waits for the cleaner. Returns the size of the cleaned segments before the cleaning."""
    logs = sorted((data / f"{_TOPIC}-0").glob("*.log"))
    size_bytes = sum(path.stat().st_size for path in logs[:-1])
    line = f"{_TOPIC} 0 {int(logs[-1].stem)}"
    checkpoint = data / "cleaner-offset-checkpoint"
    deadline = time.monotonic() + _LONGEST_SECONDS
    while time.monotonic() < deadline:
        if checkpoint.exists() and line in checkpoint.read_text(encoding="utf-8").splitlines():
            return size_bytes
        time.sleep(0.01)
    raise TimeoutError(f"it was not clean after {_LONGEST_SECONDS} s")


def _compact(running: RunningPeer) -> None:
    admin = AdminClient({"bootstrap.servers": running.bootstrap_servers, "log_level": 3})
    entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, _TOPIC, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(30)


def _measure(peer: Peer, folder: Path, load: Load) -> Mapping[str, float]:
    running = peer.start(folder, _CONFIG)
    try:
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers, "log_level": 3})
        topic = NewTopic(_TOPIC, 1, 1, config={"segment.bytes": str(_SEGMENT_BYTES)})
        admin.create_topics([topic])[_TOPIC].result(30)
        _fill(running, load.scaled(_RECORDS), load.scaled(_KEYS))
        memory = _Memory(running)
        memory.start()
        _compact(running)
        started = time.monotonic()
        size_bytes = _wait_until_clean(folder / "data")
        seconds = time.monotonic() - started
        memory.is_over = True
        memory.join()
    finally:
        running.stop()
    return {
        "megabytes_per_second": size_bytes / 1e6 / seconds,
        "most_megabytes": memory.most_bytes / 1e6,
    }


WORKLOAD = LifeWorkload(
    name="compaction",
    title="Compaction of 1 GB of 100 B records with 1,000,000 keys",
    figures=(
        Figure("megabytes_per_second", "compacted", "MB/s", target=0.5),
        Figure("most_megabytes", "memory during compaction", "MB", True, limit=200, digits=0),
    ),
    rounds=2,
    without={"tansu": _NO_COMPACTION, "mock": _NO_COMPACTION},
    measure=_measure,
)
