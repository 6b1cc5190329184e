"""One client's connection: bytes in, frames out to the dispatcher, answers back in the order of the requests.

How it works
------------
A frame is a four-byte length and that many bytes. Bytes are received into one scratch buffer that all connections of a
loop share: receiving and handling happen in one step of the loop, so a frame that arrives whole is handled where it
lies, and an idle connection owns no buffer at all. Only the beginning of an unfinished frame is copied to a buffer of
the connection's own, which grows with the bytes received, never with the length claimed.

As in Kafka, a connection has one request in progress at a time: while one waits (a long poll, a rebalance), the next
frames stay unread. Only what may wait for the disk together follows at once: a commit of offsets follows another one,
and a Produce follows a Produce whose batches are in the log already. Answers keep the order of the requests all the
same, and no more than `FRAMES_IN_A_TURN` wait. The views that a handler gets of its frame are valid until it
returns. A client that has said all it wants to say (half-closed) still gets the answer to its last request.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from enum import Enum
from struct import Struct
from time import monotonic
from typing import TYPE_CHECKING, Final, cast

from klamm.broker.context import ConnectionInfo
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import MalformedMessage

if TYPE_CHECKING:
    from klamm.broker.dispatch import Body, Dispatcher, PendingBody
    from klamm.broker.listener import Listener

__all__ = ["Admission", "Connection"]

logger = logging.getLogger(__name__)

FRAME_SIZE: Final = Struct(">i")
FRAME_HEAD: Final = Struct(">ii")
FLEXIBLE_FRAME_HEAD: Final = Struct(">iiB")
SMALLEST_GROWTH: Final = 16 * 1024
NEVER_ASKED: Final = 2**63
OFFSET_COMMIT: Final = ApiKey.OFFSET_COMMIT.to_bytes(2, "big")
PRODUCE: Final = ApiKey.PRODUCE.to_bytes(2, "big")
FRAMES_IN_A_TURN: Final = 256
"""So many requests of one connection are handled before others have their turn."""
TURN_S: Final = 0.002
"""Fewer, if they take longer than that."""
SMALL_ANSWER: Final = 4096
"""Answers up to this size are joined with their head into one buffer; a copy that small is cheaper than a second one
to write."""


class Admission(Enum):
    """What becomes of a new connection."""

    now = "it is served"
    later = "it waits until another one is closed"
    refused = "it is closed"


class Connection(asyncio.BufferedProtocol):
    """The protocol of one accepted socket."""

    def __init__(self, listener: Listener, dispatcher: Dispatcher, maximum_frame_bytes: int) -> None:
        self._listener = listener
        self._dispatcher = dispatcher
        self._maximum_frame_bytes = maximum_frame_bytes
        self._transport: asyncio.Transport | None = None
        self._pending: PendingBody | None = None
        self._followers: deque[tuple[int, bool, Body | PendingBody]] = deque()
        self._may_follow_key: bytes | None = None
        """While a request is in progress: of which API the next one must be to be handled already."""
        self._partial: bytearray | None = None
        self._partial_filled = 0
        self._partial_limit = 0
        self._is_reading = True
        self._may_write = True
        self._is_at_end = False
        self._unsent_bytes = NEVER_ASKED
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
        match self._listener.admit(self):
            case Admission.refused:
                self._transport.abort()
            case Admission.later:
                self._may_write = False
                self._set_reading(False)

    def let_in(self) -> None:
        """Begins with the requests of a client that had to wait for its turn to be connected."""
        self.last_active_s = self._listener.loop.time()
        self._may_write = True
        self._set_reading(True)
        self._consume_partial()

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
        self._note_unsent()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._may_write = True
        self._listener.unsent.forget(self)
        if self._pending is None:
            self._consume_partial()

    def eof_received(self) -> bool:
        """The client will send nothing more.

        True while a request is in progress, so that its answer can still be sent, as Kafka does: it doesn't listen
        while it works.
        """
        self._is_at_end = True
        return self._pending is not None

    def connection_lost(self, exc: Exception | None) -> None:
        """Drops what was in progress; nobody waits for its answer any more.

        What a handler is doing (creating a topic, for example) it finishes, as it would have with a client that stays.
        """
        self._transport = None
        self._drop_partial()
        in_progress = [self._pending, *(body for _, _, body in self._followers)]
        self._pending = self._may_follow_key = None
        self._followers.clear()
        for pending in in_progress:
            if isinstance(pending, asyncio.Task):
                self._listener.let_finish(pending)
            elif isinstance(pending, asyncio.Future):
                pending.cancel()
        self._listener.unsent.forget(self)
        self._listener.forget(self)

    def go_on(self) -> None:
        """Goes on with requests that had to wait: for memory, or for other connections' turn."""
        if self._transport is not None and self._may_write:
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
        turns_left = FRAMES_IN_A_TURN
        turn_ends = monotonic() + TURN_S
        while (self._pending is None or self._may_follow(view, position, end)) and self._may_write and turns_left:
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
            turns_left -= 1
            self._handle_frame(frame)
            if self._transport is None or self._transport.is_closing():
                self._drop_partial()
                return
            if position < end and monotonic() >= turn_ends:
                turns_left = 0
        if not turns_left and position < end:
            self._keep_for_next_turn(view, position, end)
        else:
            self._keep(view, position, end, needed)

    def _may_follow(self, view: memoryview, position: int, end: int) -> bool:
        """Whether the next frame may be handled while others are in progress, as far as can be told by now."""
        key = self._may_follow_key
        if key is None or len(self._followers) >= FRAMES_IN_A_TURN:
            return False
        start = position + FRAME_SIZE.size
        return end < start + len(key) or view[start : start + len(key)] == key

    def _keep_for_next_turn(self, view: memoryview, position: int, end: int) -> None:
        """Lets other connections have their turn before the rest of many small requests is handled."""
        self._set_reading(False)
        goes_on = self._pending is None or self._may_follow(view, position, end)
        self._move_to_partial(view, position, end, capacity=end - position)
        if goes_on:
            self._listener.loop.call_soon(self.go_on)

    def _keep(self, view: memoryview, position: int, end: int, needed: int) -> None:
        """Keeps `view[position:end]`, the beginning of a frame of `needed` bytes, and sees that reading goes on, or
        not."""
        left = end - position
        if left == 0:
            self._drop_partial()
            self._set_reading(True)
            return
        is_waiting = self._pending is not None and not self._may_follow(view, position, end)
        if is_waiting or not self._may_write:
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
        except Exception as error:
            logger.exception("a request of %s failed", self.peer)
            self._fail(f"{type(error).__name__}: {error}")
            return
        if answer is None:
            return
        correlation_id, is_flexible, body = answer
        if type(body) is list:
            if self._pending is None:
                self._send(correlation_id, is_flexible, body)
            else:
                self._followers.append(answer)
            return
        if self._pending is None:
            self._wait_for(correlation_id, is_flexible, cast("PendingBody", body))
        else:
            self._followers.append(answer)
        key = bytes(frame[: len(PRODUCE)])
        # A task has not appended its batches yet, and the next ones of the same producer must not be there before.
        may_follow = key == OFFSET_COMMIT or (key == PRODUCE and not isinstance(body, asyncio.Task))
        self._may_follow_key = key if may_follow else None

    def _wait_for(self, correlation_id: int, is_flexible: bool, pending: PendingBody) -> None:
        self._pending = pending
        pending.add_done_callback(lambda done: self._finish(correlation_id, is_flexible, done))

    def _finish(self, correlation_id: int, is_flexible: bool, done: PendingBody) -> None:
        if done is not self._pending:
            return  # the connection was closed meanwhile
        self._pending = None
        if not self._answer(correlation_id, is_flexible, done):
            return
        followers = self._followers
        while followers:
            correlation_id, is_flexible, body = followers.popleft()
            if type(body) is list:
                self._send(correlation_id, is_flexible, body)
            elif cast("PendingBody", body).done():
                if not self._answer(correlation_id, is_flexible, cast("PendingBody", body)):
                    return
            else:
                self._wait_for(correlation_id, is_flexible, cast("PendingBody", body))
                break
        else:
            self._may_follow_key = None
        self._consume_partial()
        if self._is_at_end and self._pending is None and self._transport is not None:
            self._transport.close()  # when what is to be sent has been sent

    def _answer(self, correlation_id: int, is_flexible: bool, done: PendingBody) -> bool:
        """Sends what has been waited for. False if there is nothing more to do here."""
        if done.cancelled():
            return False
        error = done.exception()
        if error is not None:
            self._fail(str(error))
            return False
        body = done.result()
        self.last_active_s = self._listener.loop.time()
        if body is not None:
            self._send(correlation_id, is_flexible, body)
        return True

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
        if not self._may_write:
            self._note_unsent()

    def _note_unsent(self) -> None:
        if self._transport is not None:
            self._listener.unsent.note(self, self._transport.get_write_buffer_size())

    def _fail(self, reason: str) -> None:
        """Closes the connection: the peer sent what can't be answered.

        One log line, for whoever runs the broker.
        """
        logger.warning("closing the connection of %s: %s", self.peer, reason)
        self.close()

    @property
    def peer(self) -> str:
        """`host:port` of the client, for log lines."""
        return self.info.peer if self.info is not None else "unknown"

    @property
    def is_busy(self) -> bool:
        """Whether a request of this connection is in progress."""
        return self._pending is not None

    def is_reading_on(self) -> bool:
        """Whether the client has taken some of what waits for it since this was asked last: slow is not idle."""
        before = self._unsent_bytes
        self._unsent_bytes = self._transport.get_write_buffer_size() if self._transport is not None else 0
        return 0 < self._unsent_bytes < before

    def close(self) -> None:
        """Closes at once; requests in progress are dropped."""
        if self._transport is not None:
            self._transport.abort()
