"""Tests how a connection handles frames, answers and misbehaving clients."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

import pytest
from tests.support.event_loop import in_loop

from klamm.broker import time_slices as time_slices_module
from klamm.broker.handler_context import ConnectionInfo
from klamm.broker.network import client_connection as connection_module
from klamm.broker.network.client_connection import FRAMES_IN_A_TURN, LARGE_ANSWER, PIECE, Connection
from klamm.broker.network.codec_route import COPIED_FRAME_BYTES
from klamm.broker.network.dispatch import Body, Dispatcher, PendingBody
from klamm.broker.network.listener import Listener
from klamm.broker.network.unsent_answers import UnsentAnswers
from klamm.broker.time_slices import Progress, Work, begin
from klamm.protocol.errors import MalformedMessage

MAXIMUM_IDLE_S = 600.0
ECHO, WAIT, BREAK, REFUSE, WORK, STEPS = b"ewbrts"
COMMIT = b"\x00\x08"
"""The API key of OffsetCommit, the first bytes of its frame."""
PRODUCE = b"\x00\x00"


class Handlers:
    """Replaces the dispatcher. The first byte of a frame, or the byte after the API key of a commit or a Produce,
    selects the behaviour; the rest is the answer."""

    def __init__(self) -> None:
        self.handled: list[bytes] = []
        self.pending: list[asyncio.Future[Body | None]] = []
        self.worked: list[bytes] = []
        self.closed: list[ConnectionInfo] = []
        self.progress = Progress()

    def connection_closed(self, connection: ConnectionInfo) -> None:
        self.closed.append(connection)

    def dispatch(self, connection: ConnectionInfo, frame: memoryview) -> tuple[int, bool, Body | PendingBody] | None:
        frame = frame[len(COMMIT) :] if frame[: len(COMMIT)] in (COMMIT, PRODUCE) else frame
        what, answer = frame[0], bytes(frame[1:])
        self.handled.append(answer)
        if what == BREAK:
            raise ValueError("a mistake of ours")
        if what == REFUSE:
            raise MalformedMessage("a mistake of theirs")
        if what == WAIT:
            future: asyncio.Future[Body | None] = asyncio.get_running_loop().create_future()
            self.pending.append(future)
            return 1, False, future
        if what == STEPS:
            return 1, False, cast("PendingBody", begin(self._steps(frame), self.progress))
        if what == WORK:
            return 1, False, asyncio.ensure_future(self._work(answer))
        return 1, False, [answer]

    def _steps(self, frame: memoryview) -> Work[Body | None]:
        """Reads the frame in the third step, and answers with the whole frame after the fifth."""
        for number in range(5):
            if number == 2:
                self.worked.append(bytes(frame[1:]))
                self.progress.frame_is_read()
            yield None
        return [self.worked[-1]]

    async def _work(self, answer: bytes) -> Body | None:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self.worked.append(answer)
        return [answer]


class Socket:
    """Replaces the transport: records written data, and simulates a queue if the client doesn't read."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.queued_bytes = 0
        self.state = "open"
        self.is_reading = True

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return {"peername": ("10.0.0.1", 5000), "sockname": ("10.0.0.2", 9092)}[name]

    def write(self, data: bytes) -> None:
        self.written.append(bytes(data[8:]))  # omits the size and the correlation id

    def writelines(self, parts: list[bytes]) -> None:
        self.write(b"".join(parts))

    def get_write_buffer_size(self) -> int:
        return self.queued_bytes

    def is_closing(self) -> bool:
        return self.state != "open"

    def abort(self) -> None:
        self.state = "aborted"

    def close(self) -> None:
        self.state = "closed"

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True


class Peer:
    """A client's end of a connection."""

    def __init__(self, listener: Listener, handlers: Handlers, maximum_frame_bytes: int = 1_000_000) -> None:
        self.listener = listener
        self.socket = Socket()
        self.connection = Connection(listener, cast(Dispatcher, handlers), maximum_frame_bytes)
        self.connection.connection_made(cast(asyncio.Transport, self.socket))

    def send(self, *frames: bytes) -> None:
        """Sends frames in one piece."""
        data = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
        buffer = self.connection.get_buffer(len(data))
        buffer[: len(data)] = data
        self.connection.buffer_updated(len(data))

    def feed(self, data: bytes) -> None:
        """Sends a part of a stream of frames."""
        while data:
            buffer = self.connection.get_buffer(len(data))
            size = min(len(buffer), len(data))
            buffer[:size] = data[:size]
            self.connection.buffer_updated(size)
            data = data[size:]

    def stop_reading(self, queued_bytes: int) -> None:
        """Simulates a queue of the given size in the socket."""
        self.socket.queued_bytes = queued_bytes
        self.connection.pause_writing()

    def read_on(self) -> None:
        """Empties the socket's queue."""
        self.socket.queued_bytes = 0
        self.connection.resume_writing()


def new_listener(handlers: Handlers, **options: Any) -> Listener:
    defaults: dict[str, Any] = {
        "host": "127.0.0.1",
        "port": 0,
        "advertised": None,
        "maximum_frame_bytes": 1_000_000,
        "maximum_connections": 100,
        "maximum_connections_per_host": 100,
        "backlog": 10,
        "maximum_idle_s": MAXIMUM_IDLE_S,
    }
    return Listener(cast(Dispatcher, handlers), **defaults | options)


@pytest.fixture(autouse=True)
def turns_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes turns end by count and not by time, so that the result does not depend on the machine's speed."""
    monkeypatch.setattr(connection_module, "TURN_S", 3600.0)


@in_loop
async def test_requests_wait_for_the_one_in_progress() -> None:
    """A request waits for the request in progress, and answers are in the order of the requests."""
    handlers = Handlers()
    peer = Peer(new_listener(handlers), handlers)
    peer.send(b"wfirst", b"esecond", b"ethird")
    assert handlers.handled == [b"first"]
    assert not peer.socket.is_reading
    handlers.pending[0].set_result([b"first"])
    await asyncio.sleep(0)
    assert peer.socket.written == [b"first", b"second", b"third"]
    assert peer.socket.is_reading


@in_loop
async def test_commits_follow_a_commit_that_waits() -> None:
    """Commits that follow a waiting commit are handled, so that they can be written together. Other requests wait
    until all commits are answered, and answers stay in order."""
    handlers = Handlers()
    peer = Peer(new_listener(handlers), handlers)
    peer.send(COMMIT + b"w1", COMMIT + b"e2", COMMIT + b"w3", COMMIT + b"w4", b"e5", COMMIT + b"e6")
    assert handlers.handled == [b"1", b"2", b"3", b"4"]
    assert not peer.socket.is_reading
    handlers.pending[1].set_result([b"3"])
    await asyncio.sleep(0)
    assert peer.socket.written == []
    handlers.pending[0].set_result([b"1"])
    await asyncio.sleep(0)
    assert peer.socket.written == [b"1", b"2", b"3"]
    assert handlers.handled[-1] == b"4"
    handlers.pending[2].set_result([b"4"])
    await asyncio.sleep(0)
    assert peer.socket.written == [b"1", b"2", b"3", b"4", b"5", b"6"]
    assert peer.socket.is_reading


@in_loop
async def test_commits_follow_as_they_come_and_only_a_commit() -> None:
    """A commit in a separate packet also follows a waiting commit, but a commit behind a long poll waits."""
    handlers = Handlers()
    listener = new_listener(handlers)
    committing, polling = Peer(listener, handlers), Peer(listener, handlers)
    committing.send(COMMIT + b"w1")
    committing.send(COMMIT + b"w2")
    polling.send(b"wpoll", COMMIT + b"e3")
    assert handlers.handled == [b"1", b"2", b"poll"]
    handlers.pending[0].set_result([b"1"])
    await asyncio.sleep(0)
    committing.send(COMMIT + b"e4")
    handlers.pending[1].set_result([b"2"])
    await asyncio.sleep(0)
    assert committing.socket.written == [b"1", b"2", b"4"]


@in_loop
async def test_batches_are_appended_while_others_wait_for_the_disk() -> None:
    """Batches are appended while earlier ones wait for the disk, to share the next sync. Answers keep their order; a
    commit or another request waits."""
    handlers = Handlers()
    peer = Peer(new_listener(handlers), handlers)
    peer.send(PRODUCE + b"w1", PRODUCE + b"e2", PRODUCE + b"w3", COMMIT + b"e4", PRODUCE + b"e5")
    assert handlers.handled == [b"1", b"2", b"3"]
    assert not peer.socket.is_reading
    handlers.pending[1].set_result([b"3"])
    await asyncio.sleep(0)
    assert peer.socket.written == []
    handlers.pending[0].set_result([b"1"])
    await asyncio.sleep(0)
    assert peer.socket.written == [b"1", b"2", b"3", b"4", b"5"]
    assert peer.socket.is_reading


@in_loop
async def test_a_large_batch_is_read_while_others_wait_for_the_disk() -> None:
    """A large Produce frame in two pieces, split anywhere, is read while an earlier one waits for the disk; another
    request is not."""
    frame = PRODUCE + b"w" + bytes(100)
    whole = len(frame).to_bytes(4, "big") + frame
    for cut in range(1, len(whole)):
        handlers = Handlers()
        peer = Peer(new_listener(handlers), handlers)
        peer.send(PRODUCE + b"wfirst")
        for piece in (whole[:cut], whole[cut:]):
            assert peer.socket.is_reading
            peer.feed(piece)
        assert handlers.handled == [b"first", bytes(100)]
    peer.send(b"eother")
    assert not peer.socket.is_reading


@in_loop
async def test_no_batch_overtakes_one_that_is_not_in_the_log() -> None:
    """A batch waits for an earlier Produce that is not appended yet because it first asks a coordinator."""
    handlers = Handlers()
    peer = Peer(new_listener(handlers), handlers)
    peer.send(PRODUCE + b"w1", PRODUCE + b"t2", PRODUCE + b"e3")
    assert handlers.handled == [b"1", b"2"]
    handlers.pending[0].set_result([b"1"])
    await asyncio.sleep(0)
    assert handlers.handled == [b"1", b"2"]
    for _ in range(4):
        await asyncio.sleep(0)
    assert peer.socket.written == [b"1", b"2", b"3"]


@in_loop
async def test_batches_that_follow_take_turns_with_other_connections() -> None:
    """After a full turn, the remaining Produce frames are handled in the next turn, without waiting for an answer."""
    handlers = Handlers()
    peer = Peer(new_listener(handlers), handlers)
    peer.send(
        PRODUCE + b"w0", *(PRODUCE + b"e%d" % number for number in range(1, FRAMES_IN_A_TURN)), PRODUCE + b"elast"
    )
    assert len(handlers.handled) == FRAMES_IN_A_TURN
    await asyncio.sleep(0)
    assert len(handlers.handled) == FRAMES_IN_A_TURN + 1
    assert peer.socket.written == []


@in_loop
async def test_so_many_commits_wait_at_once() -> None:
    """The number of waiting commits is limited, because a coordinator whose replicas don't follow would collect
    commits without end."""
    handlers = Handlers()
    peer = Peer(new_listener(handlers), handlers)
    for number in range(FRAMES_IN_A_TURN + 5):
        if peer.socket.is_reading:
            peer.send(COMMIT + b"w%d" % number)
    assert len(handlers.handled) == FRAMES_IN_A_TURN + 1
    assert not peer.socket.is_reading
    for pending in handlers.pending:
        pending.set_result([b"x"])
    for _ in range(3):
        await asyncio.sleep(0)
    assert peer.socket.is_reading


@in_loop
async def test_commits_that_wait_end_with_their_connection() -> None:
    """Waiting commits are cancelled when the connection is lost; a commit that fails with an error aborts the
    connection."""
    handlers = Handlers()
    listener = new_listener(handlers)
    gone, wrong = Peer(listener, handlers), Peer(listener, handlers)
    gone.send(COMMIT + b"w1", COMMIT + b"w2", COMMIT + b"t3")
    gone.connection.connection_lost(None)
    assert all(pending.cancelled() for pending in handlers.pending)
    for _ in range(4):
        await asyncio.sleep(0)
    assert handlers.worked == [b"3"]
    wrong.send(COMMIT + b"w1", COMMIT + b"w2", COMMIT + b"w3")
    handlers.pending[-2].set_exception(ValueError("a mistake of ours"))
    handlers.pending[-3].set_result([b"1"])
    await asyncio.sleep(0)
    assert (wrong.socket.written, wrong.socket.state) == ([b"1"], "aborted")


@in_loop
async def test_a_mistake_of_ours_costs_the_connection_and_nobody_hangs(caplog: pytest.LogCaptureFixture) -> None:
    """An error in the broker aborts the connection and is logged with its traceback; a malformed request is logged in
    one line with the client's address."""
    handlers = Handlers()
    listener = new_listener(handlers)
    ours, theirs = Peer(listener, handlers), Peer(listener, handlers)
    with caplog.at_level(logging.WARNING, "klamm"):
        ours.send(b"bx", b"ey")
        assert (ours.socket.state, ours.socket.written) == ("aborted", [])
        assert any(record.exc_info for record in caplog.records)
        caplog.clear()
        theirs.send(b"rx", b"ey")
        assert theirs.socket.state == "aborted"
        (line,) = caplog.records
        assert "10.0.0.1:5000" in line.getMessage()
        assert not line.exc_info


@in_loop
async def test_who_has_said_all_still_gets_the_answer() -> None:
    """A half-closed client still gets its pending answer; the connection closes after the last answer."""
    handlers = Handlers()
    listener = new_listener(handlers)
    waiting, idle = Peer(listener, handlers), Peer(listener, handlers)
    waiting.send(b"wlast")
    assert waiting.connection.eof_received()
    assert not idle.connection.eof_received()
    handlers.pending[0].set_result([b"last"])
    await asyncio.sleep(0)
    assert (waiting.socket.written, waiting.socket.state) == ([b"last"], "closed")


@in_loop
async def test_a_long_poll_ends_with_its_connection_and_work_does_not() -> None:
    """A lost connection cancels a long poll but not work in progress, such as the creation of a topic. Stopping the
    broker cancels that work."""
    handlers = Handlers()
    listener = new_listener(handlers)
    polling, working, late = (Peer(listener, handlers) for _ in range(3))
    polling.send(b"wpoll")
    working.send(b"twork")
    for peer in (polling, working):
        peer.connection.connection_lost(None)
    assert handlers.pending[0].cancelled()
    for _ in range(4):
        await asyncio.sleep(0)
    assert handlers.worked == [b"work"]
    late.send(b"tlate")
    late.connection.connection_lost(None)
    await listener.stop()
    assert handlers.worked == [b"work"]


@in_loop
async def test_many_requests_take_turns_with_other_connections() -> None:
    """One iteration of the loop handles a limited number of requests of a connection, however small they are."""
    handlers = Handlers()
    peer = Peer(new_listener(handlers), handlers)
    frames = [b"e%d" % number for number in range(2 * FRAMES_IN_A_TURN + 5)]
    peer.send(*frames)
    assert len(handlers.handled) == FRAMES_IN_A_TURN
    assert not peer.socket.is_reading
    await asyncio.sleep(0)
    assert len(handlers.handled) == 2 * FRAMES_IN_A_TURN
    await asyncio.sleep(0)
    assert peer.socket.written == [frame[1:] for frame in frames]
    assert peer.socket.is_reading


@in_loop
async def test_requests_that_take_long_make_a_turn_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn ends early if its requests take long, so that other connections are served."""
    monkeypatch.setattr(connection_module, "TURN_S", 0.0)
    handlers = Handlers()
    peer = Peer(new_listener(handlers), handlers)
    peer.send(b"e1", b"e2", b"e3")
    assert handlers.handled == [b"1"]
    for _ in range(2):
        await asyncio.sleep(0)
    assert handlers.handled == [b"1", b"2", b"3"]
    assert peer.socket.is_reading


@in_loop
async def test_silence_is_counted_from_the_last_answer_and_not_while_one_reads() -> None:
    """`connections.max.idle.ms` does not close a connection with a long poll, a recent answer, or a client that reads
    slowly."""
    handlers = Handlers()
    listener = new_listener(handlers)
    polling, slow, stuck, silent = (Peer(listener, handlers) for _ in range(4))
    polling.send(b"wpoll")
    slow.stop_reading(1000)
    stuck.stop_reading(1000)

    def long_silence() -> None:
        for peer in (polling, slow, stuck, silent):
            peer.connection.last_active_s -= 2 * MAXIMUM_IDLE_S
        listener.close_idle()

    long_silence()
    assert [peer.socket.state for peer in (polling, slow, stuck, silent)] == ["open", "open", "open", "aborted"]
    handlers.pending[0].set_result([b"answer"])
    await asyncio.sleep(0)
    slow.socket.queued_bytes = 900
    listener.close_idle()
    assert [peer.socket.state for peer in (polling, slow, stuck)] == ["open", "open", "aborted"]
    long_silence()
    assert [peer.socket.state for peer in (polling, slow)] == ["aborted", "aborted"]


@in_loop
async def test_silence_may_be_allowed_for_ever() -> None:
    """A negative `connections.max.idle.ms` sets no limit, as in Kafka."""
    handlers = Handlers()
    listener = new_listener(handlers, maximum_idle_s=-0.001)
    peer = Peer(listener, handlers)
    peer.connection.last_active_s -= 10**9
    listener.close_idle()
    assert peer.socket.state == "open"


@in_loop
async def test_who_does_not_read_makes_answers_smaller_and_is_let_go_at_last(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Unsent answers are limited in total: they reduce the size of new answers, and the first client that doesn't
    read is disconnected. Clients that read stay connected."""
    handlers = Handlers()
    megabyte = 1024 * 1024
    unsent = UnsentAnswers(wanted_bytes=8 * megabyte, maximum_bytes=16 * megabyte)
    listener = new_listener(handlers, unsent=unsent)
    first, second, third, reader = (Peer(listener, handlers) for _ in range(4))
    assert unsent.room_bytes == 8 * megabyte
    first.stop_reading(5 * megabyte)
    assert unsent.room_bytes == 3 * megabyte
    second.stop_reading(6 * megabyte)
    assert unsent.room_bytes == megabyte
    reader.stop_reading(4 * megabyte)
    reader.read_on()
    assert unsent.total_bytes == 11 * megabyte
    with caplog.at_level(logging.WARNING, "klamm"):
        third.stop_reading(6 * megabyte)
    assert [peer.socket.state for peer in (first, second, third, reader)] == ["aborted", "open", "open", "open"]
    assert "it does not read" in caplog.text
    for peer in (first, second, third, reader):
        peer.connection.connection_lost(None)
    assert unsent.total_bytes == 0


@in_loop
async def test_an_answer_behind_others_that_wait_is_counted() -> None:
    """An answer that is queued behind unsent data counts as unsent, for example a long poll whose client doesn't
    read."""
    handlers = Handlers()
    listener = new_listener(handlers)
    peer = Peer(listener, handlers)
    peer.send(b"wpoll")
    peer.stop_reading(100)
    peer.socket.queued_bytes = 5000
    handlers.pending[0].set_result([b"x" * 4900])
    await asyncio.sleep(0)
    assert listener.unsent.total_bytes == 5000


@in_loop
async def test_one_connection_too_many_waits_for_another_to_end(caplog: pytest.LogCaptureFixture) -> None:
    """A connection beyond `max.connections` waits for its turn, as in Kafka; connections beyond the backlog are
    refused."""
    handlers = Handlers()
    listener = new_listener(handlers, maximum_connections=1, backlog=2)
    inside, first, second = (Peer(listener, handlers) for _ in range(3))
    first.send(b"eearly")
    assert (handlers.handled, first.socket.is_reading) == ([], False)
    with caplog.at_level(logging.WARNING, "klamm"):
        refused = Peer(listener, handlers)
    assert refused.socket.state == "aborted"
    assert "10.0.0.1:5000" in caplog.text
    inside.connection.connection_lost(None)
    assert (first.socket.written, first.socket.is_reading) == ([b"early"], True)
    second.send(b"esecond")
    assert (second.socket.written, second.socket.is_reading) == ([], False)
    listener.limit_connections(2, 100)
    assert second.socket.written == [b"second"]


@in_loop
async def test_connections_of_one_host_are_limited_at_once() -> None:
    """`max.connections.per.ip` refuses connections at once, including connections that wait for `max.connections`."""
    handlers = Handlers()
    listener = new_listener(handlers, maximum_connections=2, maximum_connections_per_host=2)
    one, two, waiting = (Peer(listener, handlers) for _ in range(3))
    listener.limit_connections(2, 1)
    one.connection.connection_lost(None)
    assert waiting.socket.state == "aborted"
    assert two.socket.state == "open"


@pytest.fixture
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes every step end at once, so that work continues only after an iteration of the loop."""
    monkeypatch.setattr(time_slices_module, "STEP_S", -1.0)


async def until_answered(peer: Peer, count: int) -> None:
    """Runs the loop until the given number of answers is written."""
    for _ in range(1000):
        if len(peer.socket.written) >= count:
            return
        await asyncio.sleep(0)
    raise AssertionError(f"{len(peer.socket.written)} answers")


@in_loop
async def test_commit_waits_for_one_that_is_decided_in_steps(short_steps: None) -> None:
    """A commit waits for an earlier commit that is handled in steps; otherwise an older offset could overwrite a
    newer one."""
    handlers = Handlers()
    peer = Peer(new_listener(handlers), handlers)
    peer.send(COMMIT + b"slarge", COMMIT + b"enext")
    assert handlers.handled == [b"large"]
    await until_answered(peer, 2)
    assert handlers.handled == [b"large", b"next"]
    assert peer.socket.written == [b"large", b"next"]


@in_loop
async def test_large_frame_stays_until_its_request_has_read_it(short_steps: None) -> None:
    """A large frame counts as request memory until its request has read the frame; the next frame is kept
    separately."""
    handlers = Handlers()
    listener = new_listener(handlers)
    peer = Peer(listener, handlers)
    large = b"s" + bytes(range(256)) * 2000
    assert len(large) > COPIED_FRAME_BYTES
    peer.feed(len(large).to_bytes(4, "big") + large + b"\x00\x00\x00\x05enext")
    assert len(large) <= listener.request_memory.held_bytes
    for _ in range(20):
        await asyncio.sleep(0)
    assert handlers.worked == [large[1:]]
    assert listener.request_memory.held_bytes < 1000
    await until_answered(peer, 2)
    assert peer.socket.written == [large[1:], b"next"]
    assert listener.request_memory.held_bytes == 0


@pytest.mark.parametrize("may_stop", [True, False])
@in_loop
async def test_large_request_ends_with_its_connection_unless_it_changes_something(
    short_steps: None, may_stop: bool
) -> None:
    """A large request ends with its connection unless it changes state, and all its memory is freed in both cases."""
    handlers = Handlers()
    handlers.progress.may_stop = may_stop
    listener = new_listener(handlers)
    peer = Peer(listener, handlers)
    large = b"s" + bytes(COPIED_FRAME_BYTES + 1)
    peer.feed(len(large).to_bytes(4, "big") + large)
    peer.connection.connection_lost(None)
    for _ in range(100):
        await asyncio.sleep(0)
    assert handlers.worked == ([] if may_stop else [large[1:]])
    assert listener.request_memory.held_bytes == 0


@in_loop
async def test_large_answer_is_written_as_the_client_reads() -> None:
    """A large answer is written in pieces as the client reads, before the next answer; the rest counts as unsent."""
    handlers = Handlers()
    listener = new_listener(handlers)
    peer = Peer(listener, handlers)
    peer.send(b"wlarge", b"enext")
    body: Body = [b"a" * 3_000_000, memoryview(b"b" * 7_000_000), b"c" * 10]
    write = peer.socket.writelines

    def write_and_fill_up(parts: list[bytes]) -> None:
        assert sum(map(len, parts)) <= PIECE
        write([b"\0" * 8, *parts])
        peer.stop_reading(1000)

    peer.socket.writelines = write_and_fill_up  # type: ignore[method-assign]
    handlers.pending[0].set_result(body)
    await asyncio.sleep(0)
    assert len(peer.socket.written) == 1
    assert handlers.handled == [b"large"]
    total = 8 + sum(map(len, body))
    assert listener.unsent.total_bytes == 1000 + total - PIECE
    for _ in range(total // PIECE):
        peer.read_on()
    assert handlers.handled == [b"large"]
    peer.read_on()
    assert b"".join(peer.socket.written[:-1])[8:] == b"".join(body)
    assert peer.socket.written[-1] == b"next"
    assert listener.unsent.total_bytes == 0


@in_loop
async def test_who_has_said_all_gets_a_large_answer_whole() -> None:
    """A half-closed client gets a large answer completely; the connection closes after the last piece."""
    handlers = Handlers()
    peer = Peer(new_listener(handlers), handlers)
    peer.send(b"wlarge")
    assert peer.connection.eof_received()
    peer.socket.writelines = lambda parts: peer.stop_reading(1)  # type: ignore[method-assign]
    handlers.pending[0].set_result([bytes(LARGE_ANSWER + 1)])
    await asyncio.sleep(0)
    assert peer.socket.state == "open"
    assert peer.connection.eof_received()
    for _ in range(LARGE_ANSWER // PIECE):
        assert peer.socket.state == "open"
        peer.read_on()
    assert peer.socket.state == "closed"
