"""One client's connection: receives bytes, passes frames to the dispatcher, sends responses in the request order.

How it works
------------
A frame is a four-byte length and that many bytes. Bytes are received into one scratch buffer that all connections of a
listener share. Receiving and handling happen in one step of the loop, so a complete frame is handled in place, and an
idle connection owns no buffer. Only the beginning of an incomplete frame is copied to a buffer of the connection. This
buffer grows with the bytes received, never with the length in the frame header (`request_memory.py`). A small beginning
is copied back to the scratch buffer, in front of the bytes that follow it.

As in Kafka, a connection has one request in progress at a time: while it waits (a long poll, a rebalance), the next
frames stay unread. Only requests that may wait for the disk together follow at once: an OffsetCommit follows an
OffsetCommit, and a Produce follows a Produce whose batches are already appended. Responses keep the order of the
requests, and at most `FRAMES_IN_A_TURN` wait. The views that a handler gets of its frame are valid until the handler
returns. If the handler continues in steps and the frame did not fit into the scratch buffer, they are valid until it
has read the frame. A half-closed client still gets the response to its last request.

A very large response is written in pieces, as the client reads it: passing all of it to the transport at once could
take long.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from enum import Enum
from struct import Struct
from time import monotonic
from typing import TYPE_CHECKING, Final, cast

from klamm.broker.handler_context import ConnectionInfo
from klamm.broker.network.codec_route import COPIED_FRAME_BYTES
from klamm.broker.network.file_sending import FileSender, UnreadableRecords, in_memory, lie_in_files
from klamm.broker.network.request_memory import BYTES_WITHOUT_ROOM
from klamm.broker.time_slices import InSteps, WorkTask
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import MalformedMessage

if TYPE_CHECKING:
    from klamm.broker.network.dispatch import Body, Dispatcher, PendingBody
    from klamm.broker.network.frame_buffers import Buffer
    from klamm.broker.network.listener import Listener

__all__ = ["Admission", "Connection"]

_logger = logging.getLogger(__name__)

_FRAME_SIZE: Final = Struct(">i")
_FRAME_HEAD: Final = Struct(">ii")
_FLEXIBLE_FRAME_HEAD: Final = Struct(">iiB")
_SMALL_BEGINNING: Final = 16 * 1024
_NEVER_ASKED: Final = 2**63
OFFSET_COMMIT: Final = ApiKey.OFFSET_COMMIT.to_bytes(2, "big")
PRODUCE: Final = ApiKey.PRODUCE.to_bytes(2, "big")
FRAMES_IN_A_TURN: Final = 256
"""Most requests of one connection that are handled before other connections have their turn."""
TURN_S: Final = 0.002
"""Time limit of a turn in seconds: it ends after the request that exceeds the limit."""
_SMALL_ANSWER: Final = 4096
"""Responses up to this size are joined with their header into one buffer. So small a copy is cheaper than writing a
second buffer."""
LARGE_ANSWER: Final = 8 * 1024 * 1024
"""Larger responses are written in pieces."""
PIECE: Final = 1024 * 1024


class Admission(Enum):
    """The decision about a new connection."""

    NOW = "it is served"
    LATER = "it waits until another one is closed"
    REFUSED = "it is closed"


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
        """While a request is in progress: the API key that the next request needs to be handled already."""
        self._memory = listener.request_memory
        self._partial: Buffer | None = None
        self._partial_filled = 0
        self._partial_wanted = 0
        self._is_lent = False
        """Whether a request that is not done still reads its frame in the partial buffer."""
        self._outgoing: deque[bytes | memoryview] = deque()
        """The rest of large responses, and the responses behind them."""
        self._outgoing_bytes = 0
        self._sender: FileSender | None = None
        self._is_reading = True
        self._turn_ends = 0.0
        """When the turn ends that has begun with an earlier read; 0 if the next read begins a turn."""
        self._may_write = True
        self._is_at_end = False
        self._unsent_bytes = _NEVER_ASKED
        self.info: ConnectionInfo | None = None
        self.last_active_s = 0.0

    # -- callbacks of asyncio
    # -------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admits the connection, or holds or refuses it if there are too many."""
        self._transport = cast(asyncio.Transport, transport)
        peername = transport.get_extra_info("peername") or ("unknown", 0)
        sockname = transport.get_extra_info("sockname") or ("unknown", 0)
        advertised_host, advertised_port = self._listener.advertised_to(sockname[0], sockname[1])
        self.info = ConnectionInfo(
            client_host=peername[0],
            peer=f"{peername[0]}:{peername[1]}",
            advertised_host=advertised_host,
            advertised_port=advertised_port,
            listener_name=self._listener.name,
        )
        self.last_active_s = self._listener.loop.time()
        match self._listener.admit(self):
            case Admission.REFUSED:
                self._transport.abort()
            case Admission.LATER:
                # Reading pauses after the first bytes: uvloop would ignore a pause before it has begun to read.
                self._may_write = False

    def let_in(self) -> None:
        """Begins to serve a held connection, after another one was closed."""
        self.last_active_s = self._listener.loop.time()
        self._may_write = True
        self._set_reading(True)
        self._consume_partial()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Returns the memory for the next bytes: the listener's scratch buffer, or the rest of the partial buffer."""
        partial, filled = self._partial, self._partial_filled
        if filled > _SMALL_BEGINNING:
            assert partial is not None
            if filled == len(partial):
                # Grow only here: while frames are handled, views of the buffer prevent a resize.
                self._partial = partial = self._memory.grow(partial, self._partial_wanted, self)
            return memoryview(partial)[filled : min(self._partial_wanted, filled + len(self._listener.scratch))]
        scratch = self._listener.scratch
        if partial is not None:
            scratch[:filled] = partial
        if self._memory.may_read(self):
            return scratch[filled:] if filled else scratch
        return scratch[filled : filled + BYTES_WITHOUT_ROOM]

    def buffer_updated(self, nbytes: int) -> None:
        """Handles every complete frame that has arrived and keeps the rest."""
        self.last_active_s = self._listener.loop.time()
        filled, scratch = self._partial_filled, self._listener.scratch
        end = filled + nbytes
        if filled > _SMALL_BEGINNING:
            is_full = end == min(self._partial_wanted, filled + len(scratch))
            self._partial_filled = end
            self._consume_partial()
        else:
            is_full = end == len(scratch)
            self._consume(scratch, end)
        if not is_full:  # otherwise uvloop reads again in the same iteration, up to 32 times
            self._turn_ends = 0.0

    def pause_writing(self) -> None:
        """Stops handling requests of a client that doesn't read its responses."""
        self._may_write = False
        self._note_unsent()

    def resume_writing(self) -> None:
        """Continues to write and to handle requests after the client has read."""
        self._may_write = True
        self._listener.unsent.forget(self)
        self._write_pieces()
        if self._pending is None and self._may_write:
            self._consume_partial()

    def eof_received(self) -> bool:
        """Notes that the client will send nothing more.

        Returns True while a request is in progress, so that its response can still be sent. Kafka sends it, too,
        because it does not read from the socket during a request.
        """
        self._is_at_end = True
        return self._pending is not None or bool(self._outgoing)

    def connection_lost(self, exc: Exception | None) -> None:
        """Drops the requests in progress, because no client waits for their responses.

        A handler finishes its work (creating a topic, for example), as for a client that stays connected. A large
        request that changes nothing stops.
        """
        self._transport = None
        self._sender = None
        self._drop_partial()
        self._outgoing.clear()
        self._outgoing_bytes = 0
        in_progress = [self._pending, *(body for _, _, body in self._followers)]
        self._pending = self._may_follow_key = None
        self._followers.clear()
        for pending in in_progress:
            if isinstance(pending, WorkTask) and pending.progress.may_stop:
                pending.cancel()
            elif isinstance(pending, asyncio.Task):
                self._listener.let_finish(pending)
            elif isinstance(pending, asyncio.Future):
                pending.cancel()
        self._listener.unsent.forget(self)
        self._listener.forget(self)
        if self.info is not None:
            self._dispatcher.connection_closed(self.info)

    def go_on(self) -> None:
        """Continues with requests that waited for memory, or for the turn of other connections."""
        if self._transport is not None and self._may_write:
            self._consume_partial()

    # -- frames in
    # --------------------------------------------------------------------------------------------------------------

    def _consume_partial(self) -> None:
        partial = self._partial
        if partial is not None:
            self._consume(memoryview(partial), self._partial_filled)

    def _consume(self, view: memoryview, end: int) -> None:
        """Handles the complete frames in `view[:end]` that may be handled now, then keeps or frees the rest."""
        position = 0
        needed = _FRAME_SIZE.size
        turns_left = FRAMES_IN_A_TURN
        turn_ends = self._turn_ends = self._turn_ends or monotonic() + TURN_S
        while (self._pending is None or self._may_follow(view, position, end)) and self._may_write and turns_left:
            if end - position < _FRAME_SIZE.size:
                needed = _FRAME_SIZE.size
                break
            (size,) = _FRAME_SIZE.unpack_from(view, position)
            if not 0 <= size <= self._maximum_frame_bytes:
                self._fail(f"a frame of {size} bytes, but socket.request.max.bytes is {self._maximum_frame_bytes}")
                return
            needed = _FRAME_SIZE.size + size
            if end - position < needed:
                break
            frame = view[position + _FRAME_SIZE.size : position + needed]
            position += needed
            needed = _FRAME_SIZE.size
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
        if position:
            self._memory.end_turn(self)

    def _may_follow(self, view: memoryview, position: int, end: int) -> bool:
        """Returns whether the next frame may be handled while others are in progress. True if its API key is not here
        yet."""
        key = self._may_follow_key
        if key is None or len(self._followers) >= FRAMES_IN_A_TURN:
            return False
        start = position + _FRAME_SIZE.size
        return end < start + len(key) or view[start : start + len(key)] == key

    def _keep_for_next_turn(self, view: memoryview, position: int, end: int) -> None:
        """Keeps the rest of many small requests for the next turn, so that other connections are served first."""
        self._set_reading(False)
        goes_on = self._pending is None or self._may_follow(view, position, end)
        self._move_to_partial(view, position, end, wanted=end - position)
        if goes_on:
            self._listener.loop.call_soon(self.go_on)

    def _keep(self, view: memoryview, position: int, end: int, needed: int) -> None:
        """Keeps `view[position:end]`, the beginning of a frame of `needed` bytes, and resumes or pauses reading."""
        left = end - position
        if left == 0:
            self._drop_partial()
            self._set_reading(True)
            return
        is_waiting = self._pending is not None and not self._may_follow(view, position, end)
        is_paused = is_waiting or not self._may_write
        if position or view.obj is not self._partial:
            self._move_to_partial(view, position, end, wanted=left if is_paused else needed)
        if is_paused:
            # More requests arrived while one is in progress. They stay in the partial buffer, and later ones in the
            # socket's buffer.
            self._set_reading(False)
            return
        self._partial_wanted = needed
        may_read = self._memory.may_read(self)
        self._set_reading(may_read)
        if not may_read:
            self._memory.wait(self)

    def _move_to_partial(self, view: memoryview, position: int, end: int, *, wanted: int) -> None:
        left = end - position
        buffer = self._memory.take(left, wanted, self)
        memoryview(buffer)[:left] = view[position:end]
        self._drop_partial()
        self._partial, self._partial_filled, self._partial_wanted = buffer, left, wanted

    def _drop_partial(self) -> None:
        if self._partial is not None:
            if not self._is_lent:
                self._memory.give_back(self._partial)
            self._is_lent = False
            self._partial, self._partial_filled, self._partial_wanted = None, 0, 0

    def _lend_partial(self, borrower: WorkTask[Body | None]) -> None:
        """Lends the buffer of a large frame to its request until the request has read the frame."""
        buffer = self._partial
        assert buffer is not None
        self._is_lent = True
        borrower.progress.when_frame_is_read(lambda: self._memory.give_back(buffer))

    def _set_reading(self, wanted: bool) -> None:
        if wanted != self._is_reading and self._transport is not None and not self._transport.is_closing():
            self._is_reading = wanted
            if wanted:
                self._transport.resume_reading()
            else:
                self._turn_ends = 0.0
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
            _logger.exception("a request of %s failed", self.peer)
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
        if isinstance(body, WorkTask) and len(frame) > COPIED_FRAME_BYTES:
            self._lend_partial(body)
        key = bytes(frame[: len(PRODUCE)])
        # A task has not appended its batches yet, and later batches of the same producer must not overtake them. The
        # same applies to commits that are decided in steps.
        if isinstance(body, InSteps):
            may_follow = False
        else:
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
        self._close_at_end()

    def _close_at_end(self) -> None:
        if self._is_at_end and self._pending is None and not self._outgoing and self._transport is not None:
            self._transport.close()  # sends the buffered bytes first

    def _answer(self, correlation_id: int, is_flexible: bool, done: PendingBody) -> bool:
        """Sends the result of a pending request. Returns False if the request was cancelled or failed."""
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
            head = _FLEXIBLE_FRAME_HEAD.pack(size, correlation_id, 0)
        else:
            head = _FRAME_HEAD.pack(size, correlation_id)
        if size <= _SMALL_ANSWER and not self._outgoing:
            transport.write(head + b"".join(body))
        else:
            parts = self._send_from_files([head, *body])
            if self._outgoing or size > LARGE_ANSWER:
                self._outgoing += parts
                self._outgoing_bytes += sum(map(len, parts))
                self._write_pieces()
            elif parts:
                transport.writelines(parts)
        if not self._may_write:
            self._note_unsent()

    def _send_from_files(self, parts: Body) -> list[bytes | memoryview]:
        """Sends as much of a response with records in files as the socket accepts; returns the rest in memory."""
        transport = self._transport
        if transport is None or not lie_in_files(parts):
            return parts
        try:
            if self._sender is None:
                self._sender = FileSender.of(transport)
            if self._sender is None or self._outgoing or transport.get_write_buffer_size() or transport.is_closing():
                return in_memory(parts)
            return self._sender.send(parts)
        except ConnectionError:
            self.close()
        except UnreadableRecords as error:
            self._fail(str(error))
        return []

    def _write_pieces(self) -> None:
        """Writes the rest of large responses until the transport's buffer is full."""
        outgoing, transport = self._outgoing, self._transport
        if not outgoing:
            return
        while outgoing and self._may_write and transport is not None and not transport.is_closing():
            pieces, size = [], 0
            while outgoing and size < PIECE:
                part = outgoing.popleft()
                if len(part) > PIECE - size:
                    part = memoryview(part)
                    outgoing.appendleft(part[PIECE - size :])
                    part = part[: PIECE - size]
                pieces.append(part)
                size += len(part)
            self._outgoing_bytes -= size
            transport.writelines(pieces)
        if not self._may_write:
            self._note_unsent()
        self._close_at_end()

    def _note_unsent(self) -> None:
        if self._transport is not None:
            self._listener.unsent.note(self, self._unwritten_bytes())

    def _unwritten_bytes(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size() + self._outgoing_bytes

    def _fail(self, reason: str) -> None:
        """Closes the connection, because a request cannot be answered, and logs the reason for the operator."""
        _logger.warning("closing the connection of %s: %s", self.peer, reason)
        self.close()

    @property
    def peer(self) -> str:
        """`host:port` of the client, for log lines."""
        return self.info.peer if self.info is not None else "unknown"

    @property
    def is_busy(self) -> bool:
        """Whether a request of this connection is in progress."""
        return self._pending is not None

    @property
    def missing_bytes(self) -> int:
        """Bytes of the incomplete request that have not arrived."""
        return self._partial_wanted - self._partial_filled

    def is_reading_on(self) -> bool:
        """Returns whether the client has read some of its unsent bytes since the last call: slow is not idle."""
        before = self._unsent_bytes
        self._unsent_bytes = self._unwritten_bytes()
        return 0 < self._unsent_bytes < before

    def close(self) -> None:
        """Closes the connection at once and drops the requests in progress."""
        if self._transport is not None:
            self._transport.abort()
