"""A client of etcd: one gRPC channel for each member, failover between members, TLS, and tokens.

gRPC for Python does not fail over between several addresses, so the client chooses the member. All calls use gRPC's
threads: its asyncio interface serves all loops of a process with one poller, so a loop that stalls would also delay the
keep-alives of another thread.

No call is repeated after an unknown outcome, except reads.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Generic, NamedTuple, TypeVar

import grpc
from google.protobuf.message import Message

from klamm.metadata.etcd.etcd_address import EtcdAddress
from klamm.metadata.etcd.etcd_errors import EtcdCallFailed, EtcdReplaced, EtcdUnavailable, call_failed
from klamm.metadata.etcd.generated import etcd_messages_pb2 as messages
from klamm.metadata.metadata_store import MetadataStoreError

__all__ = ["CALL_TIMEOUT_S", "RANGE", "EtcdClient", "Method"]

Request = TypeVar("Request", bound=Message)
Answer = TypeVar("Answer", bound=Message)

CALL_TIMEOUT_S: Final = 5.0
"""How long one call may take. etcd itself gives a write up after seven seconds."""
_STATUS_TIMEOUT_S: Final = 1.5
_BACK_OFF_S: Final = 0.1
_LARGEST_ANSWER: Final = 256 * 2**20
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", _LARGEST_ANSWER),
    ("grpc.enable_retries", 0),
    # etcd closes connections with more than one ping in five seconds.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.enable_http_proxy", 0),
    # Each channel has its own connection: a test and a session that share a member must not share its failure.
    ("grpc.use_local_subchannel_pool", 1),
)
_logger = logging.getLogger(__name__)


class Method(NamedTuple, Generic[Request, Answer]):
    """A method of etcd. A linearizable answer has the revision of the cluster, and not only of the member."""

    path: str
    answer: type[Answer]
    request: type[Request]
    is_linearizable: bool = False


RANGE: Final = Method("/etcdserverpb.KV/Range", messages.RangeResponse, messages.RangeRequest, True)
_STATUS: Final = Method("/etcdserverpb.Maintenance/Status", messages.StatusResponse, messages.StatusRequest)
_AUTHENTICATE: Final = Method(
    "/etcdserverpb.Auth/Authenticate", messages.AuthenticateResponse, messages.AuthenticateRequest
)


class _Member:
    """One endpoint with its channel."""

    def __init__(self, endpoint: str, credentials: Any) -> None:
        self.endpoint = endpoint
        self.is_checked = False
        """Whether it answered as a member of the right cluster, and has not failed since."""
        self.version = ""
        self.alarms: tuple[str, ...] = ()
        self._streams: set[Any] = set()
        self.channel: Any = (
            grpc.insecure_channel(endpoint, _OPTIONS)
            if credentials is None
            else grpc.secure_channel(endpoint, credentials, _OPTIONS)
        )

    def callable_of(self, method: Method[Any, Any], kind: str = "unary_unary") -> Any:
        return getattr(self.channel, kind)(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.answer.FromString,
        )

    def fail(self) -> None:
        """Ends the streams of a member that does not answer: they may be silent for long."""
        self.is_checked = False
        for stream in tuple(self._streams):
            stream.cancel()

    def open_stream(self, method: Method[Any, Any], requests: Iterator[Any], metadata: Any) -> Any:
        stream = self.callable_of(method, "stream_stream")(requests, metadata=metadata)
        self._streams.add(stream)
        return stream

    def close_stream(self, stream: Any) -> None:
        self._streams.discard(stream)
        stream.cancel()


class EtcdClient:
    """A client of one etcd cluster. `send` is for the event loop, all other methods block and are for other threads.

    `cluster_id` is known after `connect`. `highest_revision` is the highest one of all answers.
    """

    def __init__(self, address: EtcdAddress, *, required_cluster_id: int | None = None) -> None:
        """Reads the files of the address, and connects at the first call. Raises MetadataStoreError.

        `required_cluster_id`: see `connect`; None: that of the first member that answers.
        """
        self.address = address
        self.cluster_id = required_cluster_id
        self.highest_revision = 0
        self.is_closed = False
        try:
            credentials = _credentials(address)
            self._password = address.password_file.read_text().strip() if address.password_file else ""
        except OSError as error:
            raise MetadataStoreError(
                f"a file in the URL of the metadata store: {error.strerror}: {error.filename}"
            ) from error
        self._members = [_Member(endpoint, credentials) for endpoint in address.endpoints]
        self._choosing = threading.Lock()
        self._token: str | None = None

    def connect(self, timeout_s: float = CALL_TIMEOUT_S) -> None:
        """Connects to a member that has a leader, and authenticates.

        Raises EtcdUnavailable, EtcdReplaced if no member but those of another cluster answers, and EtcdCallFailed if
        user or password are wrong.
        """
        self._choose(time.monotonic() + timeout_s)

    def close(self) -> None:
        """Ends all calls and streams."""
        self.is_closed = True
        for member in self._members:
            member.channel.close()

    @property
    def version(self) -> str:
        """The version of the member that the client uses."""
        return self._members[0].version

    @property
    def alarms(self) -> tuple[str, ...]:
        """The alarms that this member reports."""
        return self._members[0].alarms

    def call(self, method: Method[Request, Answer], request: Request, timeout_s: float = CALL_TIMEOUT_S) -> Answer:
        """Makes a call that may be repeated at another member, until `timeout_s` has passed.

        Raises EtcdUnavailable, EtcdCallFailed, EtcdReplaced.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                return self.call_once(method, request, deadline - time.monotonic())
            except EtcdCallFailed as error:
                if error.is_permanent or time.monotonic() + _BACK_OFF_S > deadline:
                    raise
            time.sleep(_BACK_OFF_S)

    def call_once(self, method: Method[Request, Answer], request: Request, timeout_s: float) -> Answer:
        """Makes a call at one member, once. Raises the errors of `call`."""
        member = self._choose(time.monotonic() + timeout_s)
        revision = self.highest_revision
        try:
            answer: Answer = member.callable_of(method)(request, timeout=timeout_s, metadata=self._metadata())
        except grpc.RpcError as error:
            raise self._failed(member, error) from None
        except ValueError as error:
            raise _closed(error) from None
        self._check(method, answer, revision)
        return answer

    def call_stream(self, method: Method[Request, Answer], request: Request, timeout_s: float) -> Answer:
        """Sends one request on a stream of its own and returns the first answer. Raises the errors of `call`."""
        member = self._choose(time.monotonic() + timeout_s)
        try:
            call = member.callable_of(method, "stream_stream")(
                iter([request]), timeout=timeout_s, metadata=self._metadata()
            )
            answer: Answer = next(call)
            call.cancel()
        except grpc.RpcError as error:
            raise self._failed(member, error) from None
        except StopIteration:
            raise EtcdCallFailed(member.endpoint, grpc.StatusCode.UNAVAILABLE, "the stream ended") from None
        except ValueError as error:
            raise _closed(error) from None
        self._check(method, answer, 0)
        return answer

    async def send(self, method: Method[Request, Answer], request: Request) -> Answer:
        """Makes a call once, on the event loop. Waits some seconds for a member that has a leader.

        Raises EtcdUnavailable if the call was not sent, and EtcdCallFailed, EtcdReplaced.
        """
        member = self._members[0]
        if not member.is_checked:
            member = await asyncio.to_thread(self._choose, time.monotonic() + CALL_TIMEOUT_S)
        revision = self.highest_revision
        try:
            call = member.callable_of(method).future(request, timeout=CALL_TIMEOUT_S, metadata=self._metadata())
        except ValueError as error:
            raise _closed(error) from None
        await _finished(call)
        try:
            answer: Answer = call.result()
        except grpc.RpcError as error:
            raise self._failed(member, error) from None
        except grpc.FutureCancelledError:
            raise EtcdCallFailed(member.endpoint, grpc.StatusCode.CANCELLED, "the client was closed") from None
        self._check(method, answer, revision)
        return answer

    @contextmanager
    def stream(self, method: Method[Request, Answer], requests: Iterator[Request]) -> Iterator[Iterator[Answer]]:
        """Opens a stream at one member. Its answers raise the errors of `call`."""
        member = self._choose(time.monotonic() + CALL_TIMEOUT_S)

        def answers(call: Any) -> Iterator[Answer]:
            try:
                for answer in call:
                    self._check(method, answer, 0)
                    yield answer
            except grpc.RpcError as error:
                raise self._failed(member, error) from None

        try:
            stream = member.open_stream(method, requests, self._metadata())
        except ValueError as error:
            raise _closed(error) from None
        try:
            yield answers(stream)
        finally:
            member.close_stream(stream)

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        # A member without a leader refuses such a call, and ends such a stream.
        leader = (("hasleader", "true"),)
        return leader if not self._token else (*leader, ("token", self._token))

    def _check(self, method: Method[Any, Any], answer: Any, revision: int) -> None:
        """Raises EtcdReplaced if the answer is not of the store with which the session began."""
        header = answer.header
        if header.cluster_id != self.cluster_id:
            raise EtcdReplaced(f"etcd is cluster {header.cluster_id:x} now instead of {self.cluster_id or 0:x}")
        if method.is_linearizable and header.revision < revision:
            raise EtcdReplaced(
                f"etcd is at revision {header.revision}, after revision {revision}: it was restored from a backup. "
                f"Restore with --bump-revision and --mark-compacted, and start all brokers again"
            )
        self.highest_revision = max(self.highest_revision, header.revision)

    def _failed(self, member: _Member, error: Any) -> EtcdCallFailed:
        failure = call_failed(member.endpoint, error)
        if failure.needs_token:
            self._token = None
            member.is_checked = False
        elif failure.is_about_member:
            member.fail()
            self._members = [*(other for other in self._members if other is not member), member]
        return failure

    def _choose(self, deadline: float) -> _Member:
        """Returns the first member that can be used, and prefers it from now on. Raises EtcdUnavailable."""
        member = self._members[0]
        if member.is_checked:
            return member
        # Not longer: a keep-alive must not wait for the attempts of others.
        if not self._choosing.acquire(timeout=max(deadline - time.monotonic(), 0)):
            raise EtcdUnavailable("the metadata store can't be reached: all attempts to connect have failed so far")
        try:
            member = self._members[0]
            while not member.is_checked:
                member = self._try_all(deadline)
            return member
        finally:
            self._choosing.release()

    def _try_all(self, deadline: float) -> _Member:
        """Tries each member once. Returns one that can be used, or the first one after a pause.

        Raises EtcdUnavailable when the time is over, and EtcdReplaced if all are members of another cluster.
        """
        reasons: list[MetadataStoreError] = []
        for member in self._members:
            try:
                self._look(member, min(_STATUS_TIMEOUT_S, max(deadline - time.monotonic(), 0.1)))
            except (EtcdUnavailable, EtcdReplaced) as error:
                reasons.append(error)
                continue
            self._members = [member, *(other for other in self._members if other is not member)]
            return member
        if all(isinstance(reason, EtcdReplaced) for reason in reasons):
            raise reasons[0]
        if self.is_closed or time.monotonic() + _BACK_OFF_S > deadline:
            raise EtcdUnavailable(f"the metadata store can't be reached: {'; '.join(map(str, reasons))}")
        time.sleep(_BACK_OFF_S)
        return self._members[0]

    def _look(self, member: _Member, timeout_s: float) -> None:
        """Finds out whether the member can be used. Raises EtcdUnavailable if not."""
        try:
            if self.address.user is not None and self._token is None:
                self._token = self._authenticate(member, timeout_s)
            status = self._status_of(member, timeout_s)
            if self.cluster_id is None:
                self.cluster_id = status.header.cluster_id
            self._check(_STATUS, status, 0)
            if not status.leader:
                raise EtcdUnavailable(f"etcd at {member.endpoint} has no leader")
        except grpc.RpcError as error:
            failure = call_failed(member.endpoint, error)
            if failure.needs_token:
                self._token = None
            elif failure.is_refusal:
                raise failure from None
            raise EtcdUnavailable(str(failure)) from None
        except ValueError as error:  # the channel is closed
            raise EtcdUnavailable(f"{member.endpoint}: {error}") from None
        member.version, member.alarms, member.is_checked = status.version, tuple(status.errors), True

    def _status_of(self, member: _Member, timeout_s: float) -> messages.StatusResponse:
        metadata = self._metadata()
        try:
            status: messages.StatusResponse = member.callable_of(_STATUS)(
                messages.StatusRequest(), timeout=timeout_s, metadata=metadata[1:]
            )
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.PERMISSION_DENIED:
                raise
            # Since 3.6 only root may ask for the status. A linearizable read shows a leader too.
            request = messages.RangeRequest(key=self.address.key_prefix, count_only=True)
            answer = member.callable_of(RANGE)(request, timeout=timeout_s, metadata=metadata)
            return messages.StatusResponse(header=answer.header, leader=answer.header.member_id)
        return status

    def _authenticate(self, member: _Member, timeout_s: float) -> str:
        request = messages.AuthenticateRequest(name=self.address.user or "", password=self._password)
        try:
            answer = member.callable_of(_AUTHENTICATE)(request, timeout=timeout_s)
        except grpc.RpcError as error:
            if "authentication is not enabled" not in (error.details() or ""):
                raise
            _logger.warning("etcd at %s does not authenticate users", member.endpoint)
            return ""
        return str(answer.token)


def _credentials(address: EtcdAddress) -> Any:
    if not address.is_encrypted:
        return None

    def read(path: Any) -> bytes | None:
        return None if path is None else path.read_bytes()

    return grpc.ssl_channel_credentials(read(address.ca_file), read(address.key_file), read(address.certificate_file))


def _closed(error: ValueError) -> EtcdUnavailable:
    """Returns the error for a call on a closed channel."""
    return EtcdUnavailable(f"the connection to the metadata store is closed ({error})")


async def _finished(call: Any) -> None:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def tell() -> None:
        if not done.done():
            done.set_result(None)

    call.add_done_callback(_on_loop(loop, tell))
    await done


def _on_loop(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> Callable[[Any], None]:
    def tell(call: Any) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(callback)

    return tell
