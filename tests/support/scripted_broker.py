"""A broker with answers from a script, for answers that a real broker gives only when something fails.

Each answer is a function from the decoded request to the response, or to None, which closes the connection. `script`
has a list of answers for each API key; the last entry answers all further requests of that API.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from klamm.protocol.codec import decode, encode
from klamm.protocol.message import Message
from klamm.protocol.schema.api_versions_request import ApiVersionsRequest
from klamm.protocol.schema.api_versions_response import ApiVersion, ApiVersionsResponse
from klamm.protocol.schema.consumer_group_describe_request import ConsumerGroupDescribeRequest
from klamm.protocol.schema.describe_groups_request import DescribeGroupsRequest
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.find_coordinator_response import Coordinator, FindCoordinatorResponse
from klamm.protocol.schema.leave_group_request import LeaveGroupRequest
from klamm.protocol.schema.list_groups_request import ListGroupsRequest
from klamm.protocol.schema.list_offsets_request import ListOffsetsRequest
from klamm.protocol.schema.metadata_request import MetadataRequest
from klamm.protocol.schema.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from klamm.protocol.schema.offset_commit_request import OffsetCommitRequest
from klamm.protocol.schema.offset_fetch_request import OffsetFetchRequest
from klamm.protocol.schema.sasl_authenticate_request import SaslAuthenticateRequest
from klamm.protocol.schema.sasl_handshake_request import SaslHandshakeRequest
from klamm.protocol.types import TopicId

__all__ = ["FETCH", "TOPIC_ID", "ScriptedBroker"]

Answer = Callable[[Any], Message | bytes | None]

FETCH = 1
TOPIC_ID = TopicId(bytes(range(16)))
_REQUESTS: dict[int, type[Message]] = {
    request.API_KEY: request
    for request in (
        ApiVersionsRequest,
        MetadataRequest,
        ListOffsetsRequest,
        FindCoordinatorRequest,
        OffsetCommitRequest,
        OffsetFetchRequest,
        ConsumerGroupDescribeRequest,
        DescribeGroupsRequest,
        LeaveGroupRequest,
        ListGroupsRequest,
        SaslHandshakeRequest,
        SaslAuthenticateRequest,
    )
    if request.API_KEY is not None
}


class ScriptedBroker:
    """A broker on a free port: `with ScriptedBroker() as broker: broker.address`."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = ("127.0.0.1", self._listener.getsockname()[1])
        self.script: dict[int, list[Answer]] = {}
        self.versions: dict[int, tuple[int, int]] = {key: request.VERSIONS for key, request in _REQUESTS.items()} | {
            FETCH: (4, 18)
        }
        self.seen: list[tuple[int, int]] = []
        """API key and version of each request."""
        self.sent_answers = 0
        self.partitions = 1
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []
        self.on(ApiVersionsRequest, lambda _: self.api_versions())
        self.on(MetadataRequest, self.metadata)
        self.on(FindCoordinatorRequest, self.find_coordinator)

    def on(self, request: type[Message] | int, *answers: Answer) -> None:
        """Sets the answers to one API."""
        key = request if isinstance(request, int) else request.API_KEY
        assert key is not None
        self.script[key] = list(answers)

    def api_versions(self) -> ApiVersionsResponse:
        """Returns a response with all APIs of `versions`."""
        return ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in self.versions.items()
            ]
        )

    def metadata(self, request: MetadataRequest) -> MetadataResponse:
        """Returns a response in which the broker leads all partitions, and the topic "missing" does not exist."""
        host, port = self.address
        return MetadataResponse(
            cluster_id="scripted",
            brokers=[MetadataResponseBroker(node_id=1, host=host, port=port)],
            topics=[
                MetadataResponseTopic(
                    name=topic.name,
                    error_code=3 if topic.name == "missing" else 0,
                    topic_id=TOPIC_ID,
                    partitions=[
                        MetadataResponsePartition(partition_index=index, leader_id=1, leader_epoch=5)
                        for index in range(0 if topic.name == "missing" else self.partitions)
                    ],
                )
                for topic in request.topics or []
            ],
        )

    def find_coordinator(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        """Returns a response in which the broker is the coordinator of every group."""
        host, port = self.address
        if request.coordinator_keys:
            return FindCoordinatorResponse(
                coordinators=[Coordinator(key=key, node_id=1, host=host, port=port) for key in request.coordinator_keys]
            )
        return FindCoordinatorResponse(node_id=1, host=host, port=port)

    def __enter__(self) -> ScriptedBroker:
        self._spawn(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # A close alone does not wake a thread that waits in accept or recv.
        for one in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join(10)

    def _spawn(self, target: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(connection)
            self._spawn(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                while (answer := self._answer(connection)) is not None:
                    connection.sendall(answer)
                    self.sent_answers += 1
            except OSError:
                return

    def _answer(self, connection: socket.socket) -> bytes | None:
        """Reads a request and returns the frame to send, or None to close the connection."""
        head = _read(connection, 4)
        if head is None:
            return None
        frame = _read(connection, struct.unpack(">i", head)[0])
        if frame is None:
            return None
        key, version, correlation_id, client_id_size = struct.unpack_from(">hhih", frame)
        self.seen.append((key, version))
        answers = self.script[key]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        body_start = 10 + client_id_size
        request: Any = frame[body_start:]
        flexible = version >= 12
        if key != FETCH:
            cls = _REQUESTS[key]
            flexible = cls.FLEXIBLE_FROM is not None and version >= cls.FLEXIBLE_FROM
            known = version <= self.versions[key][1]
            if known:
                request, _ = decode(cls, version, frame, body_start + flexible)
        response = answer(request)
        if response is None:
            return None
        body = response if isinstance(response, bytes) else encode(response, min(version, self.versions[key][1]))
        tags = b"\x00" if flexible and key != ApiVersionsRequest.API_KEY else b""
        return struct.pack(">ii", 4 + len(tags) + len(body), correlation_id) + tags + body


def _read(connection: socket.socket, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        received = connection.recv(size - len(data))
        if not received:
            return None
        data += received
    return data
