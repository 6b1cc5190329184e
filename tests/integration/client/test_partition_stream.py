"""A stream returns each batch of its range once, for any log and any division into responses."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples
from tests.support.scripted_broker import FETCH, TOPIC_ID, ScriptedBroker

from klamm.client import aio_fetch
from klamm.client.aio_cluster import AsyncCluster
from klamm.client.cluster import Cluster
from klamm.client.config import ClientConfig
from klamm.client.fetch import FetchedBatches, stream_batches
from klamm.client.visible import Visibility
from klamm.protocol.control_batch import EndTransactionMarker, encode_end_transaction_marker
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fetch_messages import FetchPartitionResponse, FetchTopicResponse
from klamm.protocol.fetch_request_decoder import decode_fetch_request
from klamm.protocol.fetch_response_encoder import encode_fetch_response
from klamm.protocol.record_batch import iterate_batches, read_batch_header, restamp
from klamm.protocol.records import decode_batch, encode_batch
from klamm.protocol.types import LeaderEpoch, Millis, Offset, PartitionIndex, ProducerEpoch, ProducerId, TopicPartition

ZERO = TopicPartition("t", PartitionIndex(0))
VERSION = 18
SESSION = 77


class Batch(NamedTuple):
    """A batch in the log."""

    offset: int
    end: int
    """The offset after its last record."""
    data: bytes


class Log:
    """A partition without open transactions, and the responses of its broker."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.aborted: list[tuple[int, int, int]] = []
        """Producer id, first offset and marker offset of each aborted transaction."""
        self.visible: list[int] = []
        """The offsets that a read_committed consumer sees."""
        self.end = 0
        self._open: dict[int, list[int]] = {}

    def write(self, count: int, producer_id: int = -1) -> None:
        """Appends a batch, which belongs to a transaction if a producer id is given."""
        offsets = list(range(self.end, self.end + count))
        if producer_id < 0:
            self.visible += offsets
        else:
            self._open.setdefault(producer_id, []).extend(offsets)
        records = [(0, None, b"%d" % offset, ()) for offset in offsets]
        self._append(
            encode_batch(records, base_offset=self.end, producer_id=producer_id, is_transactional=producer_id >= 0),
            count,
        )

    def end_transaction(self, producer_id: int, *, commits: bool) -> None:
        """Appends the marker of a producer's transaction; does nothing if none is open."""
        offsets = self._open.pop(producer_id, [])
        if not offsets:
            return
        if commits:
            self.visible += offsets
        else:
            self.aborted.append((producer_id, offsets[0], self.end))
        marker = encode_end_transaction_marker(
            EndTransactionMarker(commits, 0),
            producer_id=ProducerId(producer_id),
            producer_epoch=ProducerEpoch(0),
            timestamp_ms=Millis(0),
        )
        self._append(b"".join(restamp(marker, Offset(self.end), LeaderEpoch(0))), 1)

    def skip(self, count: int) -> None:
        """Leaves a gap, as compaction does."""
        self.end += count

    def finish(self) -> None:
        """Ends all transactions and appends a last record, so that the log does not end with a gap."""
        for producer_id in list(self._open):
            self.end_transaction(producer_id, commits=False)
        self.write(1)
        self.visible.sort()

    def _append(self, data: bytes, count: int) -> None:
        assert read_batch_header(data).base_offset == self.end
        self.batches.append(Batch(self.end, self.end + count, data))
        self.end += count

    def part(self, offset: int, count: int, *, with_torn_end: bool) -> tuple[bytes, list[tuple[int, int]]]:
        """Returns `count` batches from the one that contains the offset on, optionally with an incomplete batch after
        them, and the aborted transactions in them."""
        rest = [batch for batch in self.batches if batch.end > offset]
        chosen = rest[:count]
        records = b"".join(batch.data for batch in chosen)
        if with_torn_end and len(rest) > count:
            records += rest[count].data[:-1]
        end = chosen[-1].end if chosen else offset
        return records, [(who, first) for who, first, marker in self.aborted if marker >= offset and first < end]


class Manner(NamedTuple):
    """The way in which a broker responds."""

    plan: list[int | str]
    """Number of batches in the response to each request, or the failure."""
    is_committed: bool
    """Whether the consumer reads with read_committed."""
    has_sessions: bool


class Answers:
    """The responses of a broker, one per request."""

    def __init__(self, log: Log, manner: Manner) -> None:
        self._log = log
        self._plan = itertools.chain(manner.plan, itertools.repeat(2))
        self._is_committed = manner.is_committed
        self._session_id = SESSION if manner.has_sessions else 0

    def __call__(self, body: bytes) -> bytes | None:
        """Returns the next response; None closes the connection."""
        request = decode_fetch_request(VERSION, memoryview(body), 1)
        if not request.topics and request.session_epoch < 0:
            return self._encode(0, [])
        what = next(self._plan)
        if what == "hang up":
            return None
        if what == "forgotten session" and request.session_id:
            return self._encode(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])
        if what == "nothing" and request.session_id and request.session_epoch > 0:
            return self._encode(0, [])
        if what == "another leader":
            return self._partition(ErrorCode.NOT_LEADER_OR_FOLLOWER, b"", [])
        count = what if isinstance(what, int) else 0
        offset = request.topics[0].partitions[0].fetch_offset
        records, aborted = self._log.part(offset, count, with_torn_end=what == 1)
        return self._partition(0, records, aborted)

    def _partition(self, error_code: int, records: bytes, aborted: list[tuple[int, int]]) -> bytes:
        end = self._log.end
        partition = FetchPartitionResponse(
            0, error_code, end, end, 0, aborted if self._is_committed else None, -1, records
        )
        return self._encode(0, [FetchTopicResponse(None, TOPIC_ID, [partition])])

    def _encode(self, error_code: int, topics: list[FetchTopicResponse]) -> bytes:
        return b"".join(encode_fetch_response(VERSION, error_code, self._session_id, topics))


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Generates a log with plain and transactional batches of one to three records, commits, aborts, and gaps."""
    log = Log()
    for kind in draw(st.lists(st.sampled_from("wwttttcaag"), min_size=1, max_size=20)):
        producer_id = draw(st.integers(1, 2))
        if kind == "w":
            log.write(draw(st.integers(1, 3)))
        elif kind == "t":
            log.write(draw(st.sampled_from((1, 1, 1, 3))), producer_id)
        elif kind == "g":
            log.skip(draw(st.integers(1, 2)))
        else:
            log.end_transaction(producer_id, commits=kind == "c")
    log.finish()
    return log


MANNERS = st.builds(
    Manner,
    st.lists(
        st.sampled_from((1, 1, 1, 2, 3, 5, "nothing", "another leader", "hang up", "forgotten session")), max_size=25
    ),
    st.booleans(),
    st.booleans(),
)
Read = Callable[[ClientConfig, Offset, Offset], list[FetchedBatches]]


def read_blocking(config: ClientConfig, start: Offset, end: Offset) -> list[FetchedBatches]:
    """Reads with the blocking client; copies the records, because the client reuses their memory."""
    with closing(Cluster(config)) as cluster:
        return [
            part._replace(records=memoryview(bytes(part.records))) for part in stream_batches(cluster, ZERO, start, end)
        ]


def read_in_a_loop(config: ClientConfig, start: Offset, end: Offset) -> list[FetchedBatches]:
    """Reads with the asyncio client."""

    async def read() -> list[FetchedBatches]:
        with closing(AsyncCluster(config)) as cluster:
            return [
                part._replace(records=memoryview(bytes(part.records)))
                async for part in aio_fetch.stream_batches(cluster, ZERO, start, end)
            ]

    return asyncio.run(read())


@pytest.fixture(scope="module")
def shared_broker() -> Iterator[ScriptedBroker]:
    """Runs one broker for all examples; each example sets its responses."""
    with ScriptedBroker() as running:
        yield running


def config_for(broker: ScriptedBroker, *, is_committed: bool) -> ClientConfig:
    return ClientConfig(
        (broker.address,),
        retry_backoff_ms=0,
        retry_backoff_max_ms=1,
        fetch_max_wait_ms=1,
        isolation_level="read_committed" if is_committed else "read_uncommitted",
    )


def visible(parts: Sequence[FetchedBatches]) -> list[int]:
    """Returns the offsets that an application sees."""
    found: list[int] = []
    for part in parts:
        visibility = Visibility(part.aborted_transactions)
        for position, header in iterate_batches(part.records):
            batch = part.records[position : position + header.size_bytes]
            if visibility.allows(header, batch):
                found += [record.offset for record in decode_batch(batch)]
    return found


@pytest.mark.parametrize("read", [read_blocking, read_in_a_loop], ids=["blocking", "asyncio"])
@settings(max_examples=examples(150), deadline=None)
@given(data=st.data(), log=logs(), manner=MANNERS)
def test_each_batch_of_the_range_comes_once(
    shared_broker: ScriptedBroker, read: Read, data: st.DataObject, log: Log, manner: Manner
) -> None:
    """I9, I11: a stream returns each batch of its range once and in order.

    The log has aborted transactions, markers, gaps and batches of one record. Responses are torn or empty, sessions are
    lost, leaders change, and connections break. A read_committed application sees exactly the committed records.
    """
    start = data.draw(st.integers(0, log.end - 1), label="start")
    end = data.draw(st.integers(start + 1, log.end), label="end")
    shared_broker.on(FETCH, Answers(log, manner))

    parts = read(config_for(shared_broker, is_committed=manner.is_committed), Offset(start), Offset(end))

    came = [header.base_offset for part in parts for _, header in iterate_batches(part.records)]
    wanted = [batch.offset for batch in log.batches if batch.end > start]
    assert came == wanted[: len(came)]
    assert parts[-1].next_offset >= end
    if manner.is_committed:
        first, last = came[0], parts[-1].next_offset
        assert visible(parts) == [offset for offset in log.visible if first <= offset < last]
