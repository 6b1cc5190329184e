"""One client's connection: bytes in, frames out to the dispatcher, answers back in the order of the requests.

How it works
------------
A frame is a four-byte length and that many bytes. Bytes are received into one scratch buffer that all connections of a
loop share: receiving and handling happen in one step of the loop, so a frame that arrives whole is handled where it
lies, and an idle connection owns no buffer at all. Only the beginning of an unfinished frame is copied to a buffer of
the connection's own, which grows with the bytes received, never with the length claimed.

As in Kafka, a connection has one request in progress at a time: while one waits (a long poll, a rebalance), the next
frames stay unread. The views that a handler gets of its frame are valid until it returns.
"""

from __future__ import annotations

import asyncio
import logging
from struct import Struct
from typing import TYPE_CHECKING, Final, cast

from klamm.broker.context import ConnectionInfo
from klamm.protocol.errors import MalformedMessage

if TYPE_CHECKING:
    from klamm.broker.dispatch import Body, Dispatcher, PendingBody
    from klamm.broker.listener import Listener

__all__ = ["Connection"]

logger = logging.getLogger(__name__)

FRAME_SIZE: Final = Struct(">i")
FRAME_HEAD: Final = Struct(">ii")
FLEXIBLE_FRAME_HEAD: Final = Struct(">iiB")
SMALLEST_GROWTH: Final = 16 * 1024
SMALL_ANSWER: Final = 4096
"""Answers up to this size are joined with their head into one buffer; a copy that small is cheaper than a second one
to write."""


class Connection(asyncio.BufferedProtocol):
    """The protocol of one accepted socket."""

    def __init__(self, listener: Listener, dispatcher: Dispatcher, maximum_frame_bytes: int) -> None:
        self._listener = listener
        self._dispatcher = dispatcher
        self._maximum_frame_bytes = maximum_frame_bytes
        self._transport: asyncio.Transport | None = None
        self._pending: PendingBody | None = None
        self._partial: bytearray | None = None
        self._partial_filled = 0
        self._partial_limit = 0
        self._is_reading = True
        self._may_write = True
        self.info: ConnectionInfo | None = None
        self.last_active_s = 0.0

    # -- asyncio's side
    # -------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Takes the socket, or refuses it when there are too many."""
        self._transport = cast(asyncio.Transport, transport)
        peername = transport.get_extra_info("peername") or ("unknown", 0)
        sockname = transport.get_extra_info("sockname") or ("unknown", 0)
        advertised_host, advertised_port = self._listener.advertised_to(sockname[0], sockname[1])
        self.info = ConnectionInfo(
            client_host=peername[0],
            peer=f"{peername[0]}:{peername[1]}",
            advertised_host=advertised_host,
            advertised_port=advertised_port,
        )
        self.last_active_s = self._listener.loop.time()
        if not self._listener.admit(self):
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go: the loop's scratch buffer, or behind the part of a frame that is already here."""
        if self._partial is None:
            return self._listener.scratch
        return memoryview(self._partial)[self._partial_filled : self._partial_limit]

    def buffer_updated(self, nbytes: int) -> None:
        """Handles every whole frame that has arrived and keeps the rest."""
        self.last_active_s = self._listener.loop.time()
        if self._partial is None:
            self._consume(self._listener.scratch, nbytes)
        else:
            self._partial_filled += nbytes
            self._consume_partial()

    def pause_writing(self) -> None:
        """The client doesn't read its answers: no more requests of its are handled until it does."""
        self._may_write = False

    def resume_writing(self) -> None:
        """The client reads again."""
        self._may_write = True
        if self._pending is None:
            self._consume_partial()

    def connection_lost(self, exc: Exception | None) -> None:
        """Drops what was in progress; nobody waits for its answer any more."""
        self._transport = None
        self._drop_partial()
        if self._pending is not None:
            self._pending.cancel()
            self._pending = None
        self._listener.forget(self)

    def room_was_made(self) -> None:
        """Goes on with the request that had to wait for memory."""
        if self._transport is not None and self._pending is None and self._may_write:
            self._consume_partial()

    # -- frames in
    # --------------------------------------------------------------------------------------------------------------

    def _consume_partial(self) -> None:
        partial = self._partial
        if partial is not None:
            self._consume(memoryview(partial), self._partial_filled)

    def _consume(self, view: memoryview, end: int) -> None:
        """Handles the whole frames in `view[:end]` as far as it may, then keeps or frees what is left."""
        position = 0
        needed = FRAME_SIZE.size
        while self._pending is None and self._may_write:
            if end - position < FRAME_SIZE.size:
                needed = FRAME_SIZE.size
                break
            (size,) = FRAME_SIZE.unpack_from(view, position)
            if not 0 <= size <= self._maximum_frame_bytes:
                self._fail(f"a frame of {size} bytes, but socket.request.max.bytes is {self._maximum_frame_bytes}")
                return
            needed = FRAME_SIZE.size + size
            if end - position < needed:
                break
            frame = view[position + FRAME_SIZE.size : position + needed]
            position += needed
            needed = FRAME_SIZE.size
            self._handle_frame(frame)
            if self._transport is None or self._transport.is_closing():
                self._drop_partial()
                return
        self._keep(view, position, end, needed)

    def _keep(self, view: memoryview, position: int, end: int, needed: int) -> None:
        """Keeps `view[position:end]`, the beginning of a frame of `needed` bytes, and sees that reading goes on, or
        not."""
        left = end - position
        if left == 0:
            self._drop_partial()
            self._set_reading(True)
            return
        if self._pending is not None or not self._may_write:
            # More requests came while one is in progress: they wait where they are, and the socket's own buffer fills
            # up behind them.
            self._set_reading(False)
            if position or view.obj is not self._partial:
                self._move_to_partial(view, position, end, capacity=left)
            return
        if self._partial is None and not self._listener.has_room:
            # Who holds the beginning of a request may finish it, or nobody ever would; who begins one waits.
            self._move_to_partial(view, position, end, capacity=left)
            self._set_reading(False)
            self._listener.wait_for_room(self)
            return
        if position or view.obj is not self._partial or self._partial_filled == self._partial_limit:
            self._move_to_partial(view, position, end, capacity=min(needed, max(SMALLEST_GROWTH, 4 * left)))
        self._set_reading(True)

    def _move_to_partial(self, view: memoryview, position: int, end: int, *, capacity: int) -> None:
        left = end - position
        buffer = self._listener.buffers.take(capacity)
        memoryview(buffer)[:left] = view[position:end]
        self._drop_partial()
        self._partial, self._partial_filled, self._partial_limit = buffer, left, capacity
        self._listener.count_queued(capacity)

    def _drop_partial(self) -> None:
        if self._partial is not None:
            self._listener.buffers.give_back(self._partial)
            self._listener.count_queued(-self._partial_limit)
            self._partial, self._partial_filled, self._partial_limit = None, 0, 0

    def _set_reading(self, wanted: bool) -> None:
        if wanted != self._is_reading and self._transport is not None and not self._transport.is_closing():
            self._is_reading = wanted
            if wanted:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    # -- answers out
    # --------------------------------------------------------------------------------------------------------------

    def _handle_frame(self, frame: memoryview) -> None:
        assert self.info is not None
        try:
            answer = self._dispatcher.dispatch(self.info, frame)
        except MalformedMessage as error:
            self._fail(str(error))
            return
        if answer is None:
            return
        correlation_id, is_flexible, body = answer
        if type(body) is list:
            self._send(correlation_id, is_flexible, body)
            return
        pending = cast("PendingBody", body)
        self._pending = pending
        pending.add_done_callback(lambda done: self._finish(correlation_id, is_flexible, done))

    def _finish(self, correlation_id: int, is_flexible: bool, done: PendingBody) -> None:
        if done is not self._pending:
            return  # the connection was closed meanwhile
        self._pending = None
        if done.cancelled():
            return
        error = done.exception()
        if error is not None:
            self._fail(str(error))
            return
        body = done.result()
        if body is not None:
            self._send(correlation_id, is_flexible, body)
        self._consume_partial()

    def _send(self, correlation_id: int, is_flexible: bool, body: Body) -> None:
        transport = self._transport
        if transport is None:
            return
        size = sum(map(len, body)) + (5 if is_flexible else 4)
        if is_flexible:
            head = FLEXIBLE_FRAME_HEAD.pack(size, correlation_id, 0)
        else:
            head = FRAME_HEAD.pack(size, correlation_id)
        if size <= SMALL_ANSWER:
            transport.write(head + b"".join(body))
        else:
            transport.writelines([head, *body])

    def _fail(self, reason: str) -> None:
        """Closes the connection: the peer sent what can't be answered.

        One log line, for whoever runs the broker.
        """
        peer = self.info.peer if self.info is not None else "unknown"
        logger.warning("closing the connection of %s: %s", peer, reason)
        self.close()

    @property
    def is_busy(self) -> bool:
        """Whether a request of this connection is in progress."""
        return self._pending is not None

    def close(self) -> None:
        """Closes at once; requests in progress are dropped."""
        if self._transport is not None:
            self._transport.abort()
