"""One blocking connection to one broker: requests are sent in order, and their responses arrive in that order.

A caller that waits for several connections at once uses `enqueue`, `write_ready`, `read_ready` and `take` with a
selector; none of them waits, except for a new authentication.

Several requests may be in flight at once (`send`, `send`, `receive`, `receive`), so that a round over many partitions
costs one round trip. A failed connection stays closed; the pool opens a new one. The protocol is in `conversation.py`;
`aio.py` is the asyncio counterpart.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections import deque
from typing import TypeVar

from klamm.client.config import Address, ClientConfig
from klamm.client.conversation import Conversation, Dialogue, Frame, Offers, Pending
from klamm.client.errors import ConnectionFailed
from klamm.client.tls import tls_context
from klamm.client.tls_errors import tls_failure
from klamm.protocol.message import Message

__all__ = ["Connection", "Pending"]

M = TypeVar("M", bound=Message)


class Connection:
    """A connection with negotiated API versions and, if configured, authentication. Not thread-safe.

    Every method raises `ConnectionFailed` when the peer can't be reached or closes the connection, `RequestTimedOut`
    when it does not respond within `request.timeout.ms`, and `AuthenticationFailed` when one side does not accept the
    other. All of them close the connection.
    """

    def __init__(self, address: Address, config: ClientConfig) -> None:
        self.peer = f"{address[0]}:{address[1]}"
        self._config = config
        self._conversation = Conversation(self.peer, config, time.monotonic)
        self.is_closed = False
        self._unsent: deque[memoryview] = deque()
        self._socket = self._connect(address)
        try:
            self._encrypt(address[0])
            self._hold(self._conversation.opening())
        except BaseException:
            self.close()
            raise

    def _connect(self, address: Address) -> socket.socket:
        timeout_ms = self._config.socket_connection_setup_timeout_ms
        try:
            connected = socket.create_connection(address, timeout=timeout_ms / 1000)
        except (OSError, UnicodeError) as error:  # UnicodeError: the host can't be a name
            raise ConnectionFailed(
                f"no connection to the broker at {self.peer}: {error}. "
                "Is a broker running there, and is the address right?"
            ) from error
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._config.receive_buffer_bytes >= 0:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._config.receive_buffer_bytes)
        if self._config.send_buffer_bytes >= 0:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._config.send_buffer_bytes)
        return connected

    def _encrypt(self, host: str) -> None:
        """Performs the TLS handshake, if TLS is configured; `socket.connection.setup.timeout.ms` limits it, too."""
        tls = self._config.security.tls
        if tls is None:
            return
        try:
            self._socket = tls_context(tls).wrap_socket(self._socket, server_hostname=host)
        except OSError as error:
            raise tls_failure(error, self.peer, self._config) from error

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

    def receive(self, pending: Pending, answer: type[M]) -> M:
        """Returns the decoded response to a request from `send`."""
        body = self.receive_body(pending)
        try:
            return self._conversation.read(answer, pending.version, body)
        except ConnectionFailed:
            self.close()
            raise

    def request(self, request: Message, answer: type[M], *, highest_version: int | None = None) -> M:
        """Sends a request and returns its response."""
        return self.receive(self.send(request, highest_version=highest_version), answer)

    def send_body(self, api_key: int, version: int, body: bytes | bytearray, *, flexible: bool) -> Pending:
        """Sends a request body that the caller encoded (Fetch has a codec of its own)."""
        return self._send(self._conversation.frame(api_key, version, body, flexible=flexible))

    def receive_body(self, pending: Pending) -> memoryview:
        """Returns the undecoded body of the response."""
        try:
            while (answer := self._conversation.take(pending)) is None:
                self._receive_some(pending.deadline)
        except ConnectionFailed:
            self.close()
            raise
        return answer

    def fileno(self) -> int:
        """Returns the socket's descriptor, for a selector."""
        return self._socket.fileno()

    @property
    def has_unsent(self) -> bool:
        """Whether `write_ready` has bytes left to write."""
        return bool(self._unsent)

    def enqueue(
        self, api_key: int, version: int, body: bytes | bytearray, *, flexible: bool, has_response: bool = True
    ) -> Pending:
        """Queues a request that the caller encoded, for `write_ready`."""
        self._require_open()
        self._reauthenticate()
        frame = self._conversation.frame(api_key, version, body, flexible=flexible, has_response=has_response)
        self._conversation.sent(frame)
        self._unsent.append(memoryview(frame.data))
        return frame.pending

    @property
    def unsent_requests(self) -> int:
        """How many requests are not completely written: the newest ones."""
        return len(self._unsent)

    def write_ready(self) -> None:
        """Writes as many of the queued bytes as the socket takes without waiting."""
        self._require_open()
        try:
            self._socket.settimeout(0)
            while self._unsent:
                data = self._unsent[0]
                written = self._socket.send(data)
                if written == len(data):
                    self._unsent.popleft()
                else:
                    self._unsent[0] = data[written:]
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return
        except OSError as error:
            raise self._broken(error) from error

    def read_ready(self) -> None:
        """Reads what the socket has, without waiting; then `take` returns the responses that are complete."""
        self._require_open()
        try:
            self._socket.settimeout(0)
            while True:
                received = self._socket.recv_into(self._conversation.buffer())
                if received == 0:
                    self.close()
                    raise self._conversation.broken("the broker closed the connection")
                self._conversation.filled(received)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError as error:
            raise self._broken(error) from error
        except ConnectionFailed:
            self.close()
            raise

    def take(self, pending: Pending) -> memoryview | None:
        """Returns the undecoded body of the response; None as long as it has not arrived."""
        return self._conversation.take(pending)

    def recycle(self, body: memoryview) -> None:
        """Returns a body's memory to be reused for the next large response. The body must not be read again."""
        self._conversation.recycle(body)

    def abandon(self, pending: Pending) -> None:
        """Forgets a request; its response is dropped when it arrives."""
        self._conversation.abandon(pending)

    def renewed(self, pending: Pending) -> Pending:
        """Returns the request with a new deadline, for one that was sent ahead and not awaited yet."""
        return self._conversation.renewed(pending)

    def close(self) -> None:
        """Closes the socket. Safe to call twice."""
        self.is_closed = True
        self._socket.close()

    def _send(self, frame: Frame) -> Pending:
        self._reauthenticate()
        self._write(frame)
        return frame.pending

    def _reauthenticate(self) -> None:
        # Responses to earlier requests may arrive in between; the conversation keeps them until they are taken.
        if (dialogue := self._conversation.reauthentication()) is not None:
            try:
                self._hold(dialogue)
            except BaseException:
                self.close()
                raise

    def _hold(self, dialogue: Dialogue) -> None:
        """Runs a dialogue: sends each frame and passes the response back."""
        try:
            frame = next(dialogue)
            while True:
                self._write(frame)
                frame = dialogue.send(self.receive_body(frame.pending))
        except StopIteration:
            return

    def _write(self, frame: Frame) -> None:
        self._require_open()
        self._conversation.sent(frame)
        self._unsent.append(memoryview(frame.data))
        try:
            self._socket.settimeout(self._config.request_timeout_ms / 1000)
            while self._unsent:
                self._socket.sendall(self._unsent.popleft())
        except OSError as error:
            raise self._broken(error) from error

    def _receive_some(self, deadline: float) -> None:
        """Reads the bytes that the socket has for the next response."""
        self._require_open()
        try:
            # The caller may have been busy until the deadline: a response that has arrived counts.
            self._socket.settimeout(max(deadline - time.monotonic(), 0))
            received = self._socket.recv_into(self._conversation.buffer())
        except (TimeoutError, BlockingIOError, ssl.SSLWantReadError):
            raise self._conversation.timed_out() from None
        except OSError as error:
            raise self._broken(error) from error
        if received == 0:
            raise self._conversation.broken("the broker closed the connection")
        self._conversation.filled(received)

    def _require_open(self) -> None:
        if self.is_closed:
            raise ConnectionFailed(f"the connection to the broker at {self.peer} is closed")

    def _broken(self, error: OSError) -> Exception:
        self.close()
        # In TLSv1.3 a broker refuses the client's certificate only after the handshake.
        if isinstance(error, ssl.SSLError) and not self._conversation.is_open:
            return tls_failure(error, self.peer, self._config)
        return self._conversation.broken(error)
