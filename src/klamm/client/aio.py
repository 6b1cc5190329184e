"""One asyncio connection to one broker: requests are sent in order, and their responses arrive in that order.

The protocol is that of the blocking `connection.py`, over a transport of the event loop. Bytes are received straight
into the buffer of their response.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Final, TypeVar, cast

from klamm.client.config import Address, ClientConfig
from klamm.client.conversation import Conversation, Dialogue, Frame, Offers, Pending
from klamm.client.errors import ConnectionFailed
from klamm.client.tls import tls_context
from klamm.client.tls_errors import tls_failure
from klamm.protocol.message import Message

__all__ = ["AsyncConnection"]

M = TypeVar("M", bound=Message)
# With 0, asyncio's TLS pauses the writer when nothing is left to write, and never resumes it.
_HIGH_WATER_BYTES: Final = 1
_WRITTEN_CHECK_INTERVAL_S: Final = 0.005


class _Wire(asyncio.BufferedProtocol):
    """Moves bytes between a transport and a conversation, and wakes the task that waits for a response."""

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.transport: asyncio.Transport | None = None
        self.failure: Exception | None = None
        self.waiters: dict[int, asyncio.Future[None]] = {}
        self.can_write = asyncio.Event()
        """Whether the transport has passed on all that was written to it."""
        self.can_write.set()
        self.reads = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods of asyncio.Transport without being a subclass.
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=_HIGH_WATER_BYTES)

    def pause_writing(self) -> None:
        self.can_write.clear()

    def resume_writing(self) -> None:
        self.can_write.set()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.conversation.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.reads += 1
        if self.failure is not None:
            return
        try:
            correlation_id = self.conversation.filled(nbytes)
        except ConnectionFailed as error:
            self.fail(error)
            return
        waiter = None if correlation_id is None else self.waiters.get(correlation_id)
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self.fail(exc or self.conversation.broken("the broker closed the connection"))

    def fail(self, error: Exception) -> None:
        """Closes the transport. Current and later callers get the (first) error."""
        if self.failure is None:
            self.failure = error
        if self.transport is not None:
            self.transport.abort()
        self.can_write.set()
        for waiter in self.waiters.values():
            if not waiter.done():
                waiter.set_result(None)


class AsyncConnection:
    """A connection with negotiated API versions and, if configured, authentication: `await open(…)`.

    Belongs to one event loop; any of its tasks may use it. Sending never waits: the transport buffers the data. Raises
    the errors of the blocking `Connection`, and the same errors close it.
    """

    def __init__(self, address: Address, config: ClientConfig) -> None:
        """Creates the object without connecting; use `open`."""
        self.peer = f"{address[0]}:{address[1]}"
        self._config = config
        self._loop = asyncio.get_running_loop()
        # Deadlines use the loop's clock; uvloop's differs from time.monotonic.
        self._conversation = Conversation(self.peer, config, self._loop.time)
        self._wire = _Wire(self._conversation)
        self._below: asyncio.WriteTransport | None = None
        """With TLS, the transport of the encrypted bytes."""
        self._held: list[Frame] = []
        self._reauthentication: asyncio.Task[None] | None = None
        self._is_closed = False

    @classmethod
    async def open(cls, address: Address, config: ClientConfig) -> AsyncConnection:
        """Returns a connection that is ready for requests."""
        connection = cls(address, config)
        try:
            await connection._connect(address)
            await connection._hold(connection._conversation.opening())
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def is_closed(self) -> bool:
        """Whether the connection can't send any more."""
        return self._is_closed or self._wire.failure is not None

    async def _connect(self, address: Address) -> None:
        tls = self._config.security.tls
        context = None if tls is None else await asyncio.to_thread(tls_context, tls)
        timeout_s = self._config.socket_connection_setup_timeout_ms / 1000
        try:
            async with asyncio.timeout(timeout_s):
                transport, _ = await self._loop.create_connection(lambda: self._wire, *address)
        except (OSError, UnicodeError) as error:  # UnicodeError: the host can't be a name
            raise ConnectionFailed(
                f"no connection to the broker at {self.peer}: {str(error) or 'timed out'}. "
                "Is a broker running there, and is the address right?"
            ) from error
        connected = transport.get_extra_info("socket")
        if self._config.receive_buffer_bytes >= 0:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._config.receive_buffer_bytes)
        if self._config.send_buffer_bytes >= 0:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._config.send_buffer_bytes)
        if context is not None:
            await self._encrypt(transport, context, address[0], timeout_s)

    async def _encrypt(
        self, transport: asyncio.Transport, context: ssl.SSLContext, host: str, timeout_s: float
    ) -> None:
        try:
            encrypted = await self._loop.start_tls(
                transport, self._wire, context, server_hostname=host, ssl_handshake_timeout=timeout_s
            )
        except OSError as error:
            raise tls_failure(error, self.peer, self._config) from error
        if encrypted is None:
            raise self._conversation.broken("the broker closed the connection in the TLS handshake")
        encrypted.set_write_buffer_limits(high=_HIGH_WATER_BYTES)
        self._wire.transport = encrypted
        self._below = transport

    @property
    def offers(self) -> Offers:
        """The versions and features that the broker reported when the connection was opened."""
        return self._conversation.offers

    def version_of(self, api_key: int, name: str, lowest: int, highest: int) -> int:
        """Returns the highest API version that both sides know. Raises `UnsupportedByBroker` if there is none."""
        return self._conversation.version_of(api_key, name, lowest, highest)

    def send(self, request: Message, *, highest_version: int | None = None) -> Pending:
        """Sends a request in the highest version that both sides know, up to `highest_version`, and returns at once."""
        return self._send(self._conversation.request(request, highest_version=highest_version))

    async def receive(self, pending: Pending, answer: type[M]) -> M:
        """Returns the decoded response to a request from `send`."""
        body = await self.receive_body(pending)
        try:
            return self._conversation.read(answer, pending.version, body)
        except ConnectionFailed as error:
            self._wire.fail(error)
            raise

    async def request(self, request: Message, answer: type[M], *, highest_version: int | None = None) -> M:
        """Sends a request and returns its response."""
        return await self.receive(self.send(request, highest_version=highest_version), answer)

    def send_body(
        self, api_key: int, version: int, body: bytes | bytearray, *, flexible: bool, has_response: bool = True
    ) -> Pending:
        """Sends a request body that the caller encoded (Produce and Fetch have codecs of their own)."""
        return self._send(
            self._conversation.frame(api_key, version, body, flexible=flexible, has_response=has_response)
        )

    @property
    def has_unsent(self) -> bool:
        """Whether bytes wait to be taken by the socket."""
        if self._held or not self._wire.can_write.is_set():
            return True
        return self._below is not None and self._below.get_write_buffer_size() > 0

    async def written(self) -> None:
        """Waits until the socket has taken all bytes that were sent."""
        while self.has_unsent:
            self._require_open()
            await self._wire.can_write.wait()
            # Nothing tells when the encrypted bytes, or the requests held by an authentication, have left.
            if self.has_unsent:
                await asyncio.sleep(_WRITTEN_CHECK_INTERVAL_S)
        self._require_open()

    async def receive_body(self, pending: Pending) -> memoryview:
        """Returns the undecoded body of the response. Cancelling the wait abandons the request."""
        while (answer := self._take(pending)) is None:
            self._require_open()
            waiter = self._wire.waiters[pending.correlation_id] = self._loop.create_future()
            try:
                async with asyncio.timeout_at(pending.deadline):
                    await waiter
            except TimeoutError:
                if (answer := await self._take_arrived(pending)) is not None:
                    return answer
                error = self._conversation.timed_out()
                self._wire.fail(error)
                raise error from None
            except asyncio.CancelledError:
                self.abandon(pending)
                raise
            finally:
                self._wire.waiters.pop(pending.correlation_id, None)
        return answer

    async def _take_arrived(self, pending: Pending) -> memoryview | None:
        """Returns the response if the socket has it: the loop may have been busy until the deadline."""
        reads = -1
        try:
            # An iteration of the loop reads a part of a response at most.
            while (answer := self._take(pending)) is None and reads != self._wire.reads:
                reads = self._wire.reads
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.abandon(pending)
            raise
        return answer

    def _take(self, pending: Pending) -> memoryview | None:
        try:
            return self._conversation.take(pending)
        except ConnectionFailed as error:
            self._wire.fail(error)
            raise

    def recycle(self, body: memoryview) -> None:
        """Returns a body's memory to be reused for the next large response. The body must not be read again."""
        self._conversation.recycle(body)

    def abandon(self, pending: Pending) -> None:
        """Forgets a request; its response is dropped when it arrives."""
        self._held = [frame for frame in self._held if frame.pending.correlation_id != pending.correlation_id]
        self._conversation.abandon(pending)

    def renewed(self, pending: Pending) -> Pending:
        """Returns the request with a new deadline, for one that was sent ahead and not awaited yet."""
        return self._conversation.renewed(pending)

    def close(self) -> None:
        """Closes the socket. Safe to call twice."""
        self._is_closed = True
        if self._reauthentication is not None:
            self._reauthentication.cancel()
        self._wire.fail(ConnectionFailed(f"the connection to the broker at {self.peer} is closed"))

    def _send(self, frame: Frame) -> Pending:
        self._require_open()
        dialogue = None if self._reauthentication is not None else self._conversation.reauthentication()
        if dialogue is not None:
            self._reauthentication = self._loop.create_task(self._reauthenticate(dialogue))
        if self._reauthentication is not None:
            self._held.append(frame)
        else:
            self._write(frame)
        return frame.pending

    async def _reauthenticate(self, dialogue: Dialogue) -> None:
        """Authenticates again (KIP-368). Requests made meanwhile are held and sent afterwards."""
        try:
            await self._hold(dialogue)
        except Exception as error:
            self._wire.fail(error)
            return
        self._reauthentication = None
        held, self._held = self._held, []
        for frame in held:
            self._write(frame)

    async def _hold(self, dialogue: Dialogue) -> None:
        """Runs a dialogue: sends each frame and passes the response back."""
        try:
            frame = next(dialogue)
            while True:
                self._require_open()
                self._write(frame)
                frame = dialogue.send(await self.receive_body(frame.pending))
        except StopIteration:
            return

    def _write(self, frame: Frame) -> None:
        assert self._wire.transport is not None
        self._conversation.sent(frame)
        self._wire.transport.write(frame.data)

    def _require_open(self) -> None:
        failure = self._wire.failure
        if failure is None:
            return
        if isinstance(failure, ssl.SSLError) and not self._conversation.is_open:
            raise tls_failure(failure, self.peer, self._config)
        if isinstance(failure, OSError):
            raise self._conversation.broken(failure)
        raise failure
