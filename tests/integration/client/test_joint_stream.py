"""Small ranges of many partitions are fetched in few requests; partitions that fail are left out without an error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

import pytest
from tests.support.scripted_broker import FETCH, TOPIC_ID, ScriptedBroker

from klamm.client.cluster import Cluster
from klamm.client.config import ClientConfig
from klamm.client.fetch import FetchRange, fetch_together, stream_batches
from klamm.protocol.fetch_messages import FetchPartitionResponse, FetchRequest, FetchTopicResponse
from klamm.protocol.fetch_request_decoder import decode_fetch_request
from klamm.protocol.fetch_response_encoder import encode_fetch_response
from klamm.protocol.records import encode_batch
from klamm.protocol.schema.metadata_request import MetadataRequest
from klamm.protocol.schema.metadata_response import MetadataResponse, MetadataResponseBroker
from klamm.protocol.types import Offset, PartitionIndex, TopicPartition

VERSION = 18
RECORDS = 5

Answers = Callable[[int], FetchPartitionResponse | None]
"""Returns the answer for a partition; None leaves the partition out."""


def batch(offset: int = 0, count: int = RECORDS) -> bytes:
    return encode_batch([(0, None, b"v", ())] * count, base_offset=offset)


def whole(index: int) -> FetchPartitionResponse:
    return FetchPartitionResponse(index, 0, RECORDS, RECORDS, 0, None, -1, batch())


def empty(index: int, error_code: int = 0) -> FetchPartitionResponse:
    return FetchPartitionResponse(index, error_code, RECORDS, RECORDS, 0, None, -1, b"")


def ranges(count: int) -> list[FetchRange]:
    return [
        FetchRange(TopicPartition("t", PartitionIndex(index)), Offset(0), Offset(RECORDS)) for index in range(count)
    ]


class Fetches:
    """The Fetch requests that a broker received; each is answered per partition."""

    def __init__(self, broker: ScriptedBroker, *answers: Answers, version: int = VERSION) -> None:
        self.requests: list[FetchRequest] = []
        self._version = version
        broker.partitions = 1_000
        broker.versions[FETCH] = (4, version)
        broker.on(FETCH, *(self._answer(answer) for answer in answers))

    def _answer(self, answer: Answers) -> Callable[[bytes], bytes]:
        def answered(body: bytes) -> bytes:
            # Request headers of versions before 12 have no tagged fields.
            request = decode_fetch_request(self._version, memoryview(body), 1 if self._version >= 12 else 0)
            self.requests.append(request)
            topics = [
                FetchTopicResponse(
                    topic.name,
                    topic.topic_id,
                    [found for one in topic.partitions if (found := answer(one.index)) is not None],
                )
                for topic in request.topics
            ]
            return b"".join(encode_fetch_response(self._version, 0, 0, topics))

        return answered

    @property
    def asked(self) -> list[list[int]]:
        """Returns the partitions of each request."""
        return [[one.index for topic in request.topics for one in topic.partitions] for request in self.requests]


def fetched(config: ClientConfig, wanted: Sequence[FetchRange]) -> dict[int, int]:
    """Returns the offset that each range reached, by its number."""
    with closing(Cluster(config)) as cluster:
        parts = [(number, part.next_offset) for number, part in fetch_together(cluster, wanted)]
    assert len(dict(parts)) == len(parts), "a range came twice"
    return dict(parts)


def test_a_request_names_many_partitions(broker: ScriptedBroker, config: ClientConfig) -> None:
    """A request names up to 100 partitions in order, with a limited response size, without waiting and without a
    session."""
    fetches = Fetches(broker, whole)

    assert fetched(config, ranges(250)) == dict.fromkeys(range(250), RECORDS)
    assert fetches.asked == [list(range(100)), list(range(100, 200)), list(range(200, 250))]
    for request in fetches.requests:
        assert (request.session_id, request.session_epoch, request.max_wait_ms) == (0, -1, 0)
        assert request.max_bytes == config.max_partition_fetch_bytes < config.fetch_max_bytes


@pytest.mark.parametrize("version", [4, 7, 11, 12])
def test_brokers_that_know_no_topic_ids_are_asked_by_name(
    broker: ScriptedBroker, config: ClientConfig, version: int
) -> None:
    """Brokers with Fetch versions before 13 are asked by topic name instead of topic id."""
    Fetches(broker, whole, version=version)

    assert fetched(config, ranges(3)) == dict.fromkeys(range(3), RECORDS)


def test_what_is_not_settled_is_not_asked_for_again(broker: ScriptedBroker, config: ClientConfig) -> None:
    """A partition with an error, invalid batches, half a range or no answer is not requested again. The stream of a
    single partition handles these cases."""

    def answer(index: int) -> FetchPartitionResponse | None:
        special: dict[int, FetchPartitionResponse | None] = {
            0: empty(0, 1),
            1: empty(1, 6),
            2: empty(2, 100),
            3: empty(3, 29),
            4: FetchPartitionResponse(4, 0, RECORDS, RECORDS, 0, None, -1, bytes(100)),
            5: FetchPartitionResponse(5, 0, RECORDS, RECORDS, 0, None, -1, batch(0, 2)),
            6: None,
        }
        return special[index] if index in special else whole(index)

    fetches = Fetches(broker, answer)

    assert fetched(config, ranges(8)) == {5: 2, 7: RECORDS}
    assert len(fetches.asked) == 1


def test_what_an_answer_had_no_room_for_is_asked_for_again(broker: ScriptedBroker, config: ClientConfig) -> None:
    """Partitions that did not fit into a response are requested again after the others. The next requests name fewer
    partitions, because the broker looks at each named partition."""
    left = [0]

    def two_at_once(index: int) -> FetchPartitionResponse:
        if index == fetches.asked[-1][0]:
            left[0] = 2
        left[0] -= 1
        return whole(index) if left[0] >= 0 else empty(index)

    fetches = Fetches(broker, two_at_once)

    assert fetched(config, ranges(150)) == dict.fromkeys(range(150), RECORDS)
    assert [len(asked) for asked in fetches.asked[:3]] == [100, 4, 4]
    assert len(fetches.asked) == 75


def test_what_brings_nothing_is_given_up_when_it_is_alone(broker: ScriptedBroker, config: ClientConfig) -> None:
    """Partitions that return no records in a request without other partitions are given up, for example because of an
    open transaction."""
    fetches = Fetches(broker, lambda index: empty(index) if index < 3 else whole(index))

    assert fetched(config, ranges(110)) == dict.fromkeys(range(3, 110), RECORDS)
    assert fetches.asked[1:] == [[*range(100, 110), 0, 1, 2], [0, 1, 2]]


def test_a_partition_is_named_once(broker: ScriptedBroker, config: ClientConfig) -> None:
    """A second range of a partition and a range of an unknown partition are left out."""
    fetches = Fetches(broker, whole)
    missing = FetchRange(TopicPartition("missing", PartitionIndex(0)), Offset(0), Offset(1))

    assert fetched(config, [*ranges(2), missing, *ranges(1)]) == {0: RECORDS, 1: RECORDS}
    assert fetches.asked == [[0, 1]]


def test_what_nobody_asked_for_is_passed_over(broker: ScriptedBroker, config: ClientConfig) -> None:
    """Partitions in a response that were not requested are ignored, as in the stream of a single partition."""
    broker.partitions = 2
    topics = [FetchTopicResponse(None, TOPIC_ID, [whole(1), whole(7)])]
    broker.on(FETCH, lambda _: b"".join(encode_fetch_response(VERSION, 0, 0, topics)))

    assert fetched(config, ranges(2)) == {1: RECORDS}


@pytest.mark.parametrize("garbled", [None, b"\xff" * 3], ids=["it hangs up", "it talks nonsense"])
def test_a_broker_that_fails_is_asked_no_more(
    broker: ScriptedBroker, config: ClientConfig, garbled: bytes | None
) -> None:
    """A broker that fails gets no further request; the partitions of other brokers are fetched."""
    with ScriptedBroker() as other:
        fetches = Fetches(other, whole)
        broker.on(FETCH, lambda _: garbled)

        def two_leaders(request: MetadataRequest) -> MetadataResponse:
            answer = broker.metadata(request)
            host, port = other.address
            answer.brokers.append(MetadataResponseBroker(node_id=2, host=host, port=port))
            for partition in answer.topics[0].partitions:
                partition.leader_id = 1 + partition.partition_index % 2
            return answer

        broker.partitions = 400
        broker.on(MetadataRequest, two_leaders)

        assert fetched(config, ranges(400)) == dict.fromkeys(range(1, 400, 2), RECORDS)
        assert [key for key, _ in broker.seen].count(FETCH) == 1
        assert len(fetches.asked) == 2


def test_who_stops_early_leaves_the_connection_usable(broker: ScriptedBroker, config: ClientConfig) -> None:
    """After a reader stops early, the pending response is dropped, and the connection is used again."""
    Fetches(broker, whole)
    with closing(Cluster(config)) as cluster:
        parts = fetch_together(cluster, ranges(150))
        next(parts)
        parts.close()

        (alone,) = stream_batches(cluster, TopicPartition("t", PartitionIndex(7)), Offset(0), Offset(RECORDS))

    assert alone.next_offset == RECORDS
    assert [key for key, _ in broker.seen].count(18) == 1


def test_time_that_the_caller_takes_counts_for_no_timeout(
    broker: ScriptedBroker, config: ClientConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time that the caller spends between two parts does not count for timeouts. A sink may need minutes for a part."""
    import time

    real, passed = time.monotonic, [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: real() + passed[0])
    Fetches(broker, whole)
    came = 0
    with closing(Cluster(config)) as cluster:
        for _ in fetch_together(cluster, ranges(250)):
            came += 1
            passed[0] += 3600

    assert came == 250
