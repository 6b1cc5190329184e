"""Conversations about Produce: appended batches, errors, and the resulting log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.interop.wire_conversations.batches import TIME, altered, batch, legacy_message, now_ms
from tests.interop.wire_conversations.peer import Topic
from tests.interop.wire_conversations.talk import Talk, conversation

from klamm.protocol.api import ApiKey
from klamm.protocol.compression import Compression, compress
from klamm.protocol.schema.fetch_request import FetchPartition, FetchRequest, FetchTopic
from klamm.protocol.schema.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from klamm.protocol.schema.metadata_request import MetadataRequest
from klamm.protocol.schema.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData

STRANGE = Topic("wire-strange", b"\x07" * 16)  # type: ignore[arg-type]  # a test's id
ZSTD_SINCE = 7


def request(
    *data: tuple[Topic, Mapping[int, bytes]], acks: int = -1, transactional_id: str | None = None
) -> ProduceRequest:
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=10_000,
        topic_data=[
            TopicProduceData(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_data=[
                    PartitionProduceData(index=index, records=memoryview(records))
                    for index, records in partitions.items()
                ],
            )
            for topic, partitions in data
        ],
    )


def produce(talk: Talk, topic: Topic, *batches: bytes, acks: int = -1) -> None:
    for records in batches:
        talk.ask(request((topic, {0: records}), acks=acks))


def read(talk: Talk, topic: Topic, offset: int = 0) -> None:
    """Fetches partition 0 from an offset."""
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=10_000_000)
    wanted = FetchTopic(topic=topic.name, topic_id=topic.topic_id, partitions=[partition])
    talk.ask(FetchRequest(max_bytes=10_000_000, topics=[wanted]), 17)


@conversation(ApiKey.PRODUCE)
def produce_with_all_kinds_of_acks(talk: Talk) -> None:
    """Produces with acks -1, 1 and 0, and with invalid numbers."""
    topic = talk.topic("a")
    for acks in (-1, 1, 2, -2):
        produce(talk, topic, batch(b"a", b"b"), acks=acks)
    talk.tell(request((topic, {0: batch(b"c")}), acks=0))
    talk.ask(MetadataRequest(topics=[]), 1)
    read(talk, topic, 3)
    talk.ask(request(acks=2))


@conversation(ApiKey.PRODUCE)
def produce_badly_without_acks(talk: Talk) -> None:
    """Produces invalid batches with acks=0; the broker closes the connection to report an error."""
    topic = talk.topic("a")
    for bad in (
        request((topic, {9: batch(b"a")}), acks=0),
        request((topic, {0: batch(b"a", base_offset=7)}), acks=0),
        request((topic, {0: b""}), acks=0),
        request((STRANGE, {0: batch(b"a")}), acks=0),
    ):
        talk.tell(bad)
        talk.tell(MetadataRequest(topics=[]), 1)
        talk.hear(MetadataRequest(topics=[]), 1)


@conversation(ApiKey.PRODUCE)
def produce_to_many_partitions(talk: Talk) -> None:
    """Produces to several topics and partitions, some of them unknown, some of them named twice."""
    one, two = talk.topic("a", 3), talk.topic("b")
    talk.ask(request((one, {2: batch(b"a"), 0: batch(b"b")}), (two, {0: batch(b"c")})))
    talk.ask(request((one, {9: batch(b"a"), 0: batch(b"b")}), (STRANGE, {0: batch(b"c")})))
    talk.ask(request((one, {-1: batch(b"a")})))
    talk.ask(request((STRANGE, {0: batch(b"a")})))
    talk.ask(request((one, {0: batch(b"a")}), (one, {1: batch(b"b")})))
    talk.ask(request((one, {0: batch(b"a")}), (one, {0: batch(b"b")})))
    talk.ask(request((one, {})))
    talk.ask(request())
    read(talk, one)


@conversation(ApiKey.PRODUCE)
def produce_to_internal_topics(talk: Talk) -> None:
    """Produces to the internal topic `__consumer_offsets`, which is not for clients."""
    offsets = talk.peer.topic_of("__consumer_offsets")
    talk.peer.masks.learn_topic(*offsets)
    produce(talk, offsets, batch(b"a"))


@conversation(ApiKey.PRODUCE)
def produce_bad_bytes(talk: Talk) -> None:
    """Produces no bytes, several batches, parts of a batch, old messages and a wrong CRC.

    Null instead of records is left out, because Apache Kafka never answers it.
    """
    topic = talk.topic("a")
    sound = batch(b"a", b"b")
    produce(talk, topic, b"", sound + sound, sound + sound[:40], sound + sound[:5])
    produce(talk, topic, sound[:-1], sound[:61], sound[:30], b"\0" * 11, b"\0" * 17, b"\0" * 61)
    produce(talk, topic, legacy_message(0), legacy_message(1), legacy_message(3), altered(sound, magic=3))
    produce(talk, topic, sound[:-1] + b"\x7f", sound[:8] + bytes(4) + sound[12:])
    read(talk, topic)


@conversation(ApiKey.PRODUCE)
def produce_bad_headers(talk: Talk) -> None:
    """Produces batches with invalid header fields, in the order in which the leader checks them."""
    topic = talk.topic("a")
    sound = batch(b"a", b"b")
    produce(talk, topic, altered(sound, base_offset=5), altered(sound, base_offset=-1))
    produce(talk, topic, altered(sound, last_offset_delta=5), altered(sound, last_offset_delta=-1))
    produce(talk, topic, altered(sound, records_count=1), altered(sound, records_count=3))
    produce(talk, topic, altered(sound, records_count=0), altered(sound, records_count=-1))
    produce(talk, topic, altered(sound, b"", records_count=0, last_offset_delta=-1))
    produce(talk, topic, altered(sound, b"", records_count=0, last_offset_delta=0))
    for attributes in (8, 32, 64, 128, 256):
        produce(talk, topic, altered(sound, attributes=attributes))
    produce(talk, topic, altered(sound, partition_leader_epoch=77))
    untimed = batch(b"a", timestamp=-1)
    produce(talk, topic, untimed, altered(untimed, attributes=8))
    read(talk, topic)


@conversation(ApiKey.PRODUCE)
def produce_lies(talk: Talk) -> None:
    """Produces batches with a valid CRC whose header doesn't match the records: other counts, times and codecs."""
    topic = talk.topic("a")
    sound = batch(b"a", b"b")
    produce(talk, topic, altered(sound, max_timestamp=TIME + 500))
    for codec in (5, 6, 7):
        produce(talk, topic, altered(sound, attributes=codec))
    produce(talk, topic, altered(sound, records_count=3, last_offset_delta=2))
    produce(talk, topic, altered(sound, records_count=1, last_offset_delta=0))
    produce(talk, topic, altered(sound, sound[61:] + b"\0\0\0"), altered(sound, b"\x7f" * 20))
    produce(talk, topic, altered(sound, attributes=1))


@conversation(ApiKey.PRODUCE, since=9, until=9)
def produce_offsets_that_repeat(talk: Talk) -> None:
    """Produces records with the same offset 0 to topics whose leader reads records; compressed ones are refused."""
    keyed = b"\x0e\x00\x00\x00\x02k\x01\x00"
    without_key = b"\x0c\x00\x00\x00\x01\x01\x00"
    three = batch(b"a", b"b", b"c", timestamp=now_ms())
    compacted = talk.topic("a", cleanup_policy="compact")
    timed = talk.topic("b")
    for codec in Compression:
        header = {"attributes": int(codec)}
        produce(talk, compacted, altered(three, compress(codec, keyed * 3), **header))
        produce(talk, compacted, altered(three, compress(codec, keyed * 2 + without_key), **header))
        produce(talk, compacted, altered(three, compress(codec, keyed * 2), **header))
        late = {"max_timestamp": now_ms() + 7_200_000}
        produce(talk, timed, altered(three, compress(codec, without_key * 3), **header, **late))
        early = {"base_timestamp": now_ms() + 7_200_000}
        produce(talk, timed, altered(three, compress(codec, without_key * 3), **header, **late, **early))


@conversation(ApiKey.PRODUCE)
def produce_compressed(talk: Talk) -> None:
    """Produces with every codec."""
    topic = talk.topic("a")
    for codec in Compression:
        produce(talk, topic, batch(b"a" * 100, b"b" * 100, compression=codec))
    read(talk, topic)


@conversation(ApiKey.PRODUCE, since=9, until=9)
def produce_to_topics_with_a_codec(talk: Talk) -> None:
    """Produces to topics with a `compression.type`; batches that already have that codec stay unchanged."""
    for codec in ("gzip", "snappy", "lz4", "zstd", "uncompressed"):
        topic = talk.topic(codec, compression_type=codec)
        for sent in (Compression.NONE, Compression.GZIP, Compression.ZSTD):
            produce(
                talk,
                topic,
                batch(
                    b"a" * 100,
                    b"b" * 100,
                    compression=sent,
                    producer_id=4,
                    producer_epoch=0,
                    base_sequence=0
                    if sent is Compression.NONE
                    else 2 * sent.value - (4 if sent is Compression.ZSTD else 0),
                ),
            )
        read(talk, topic)


@conversation(ApiKey.PRODUCE)
def produce_under_time_limits(talk: Talk) -> None:
    """Produces timestamps far in the future, and timestamps beyond the topic's limits."""
    topic = talk.topic("a")
    hour = 3_600_000
    produce(
        talk, topic, batch(b"a", timestamp=now_ms() + 2 * hour), batch(b"a", b"b", timestamp=now_ms() + 90 * 60_000)
    )
    produce(
        talk, topic, batch(b"a", timestamp=now_ms() + hour // 2), batch(b"a", timestamp=0), batch(b"a", timestamp=-7)
    )
    limited = talk.topic("b", message_timestamp_before_max_ms="1000", message_timestamp_after_max_ms="100")
    produce(talk, limited, batch(b"a"), batch(b"a", timestamp=now_ms()), batch(b"a", timestamp=now_ms() + 10_000))
    produce(talk, limited, batch(b"a", timestamp=-1))
    mixed = altered(batch(b"a", b"b", timestamp=now_ms()), base_timestamp=now_ms() - 90_000)
    produce(talk, limited, mixed)


@conversation(ApiKey.PRODUCE)
def produce_under_the_leaders_time(talk: Talk) -> None:
    """Produces to a topic with LogAppendTime, where the leader's clock replaces the producer's timestamps."""
    topic = talk.topic("a", message_timestamp_type="LogAppendTime")
    produce(talk, topic, batch(b"a", b"b"), batch(b"c", timestamp=-1), batch(b"d", timestamp=now_ms() + 7_200_000))
    produce(talk, topic, batch(b"e", compression=Compression.GZIP), altered(batch(b"f"), attributes=8))
    read(talk, topic)


@conversation(ApiKey.PRODUCE)
def produce_large_batches(talk: Talk) -> None:
    """Produces batches larger than `max.message.bytes`, before or after compression, and one larger than a segment."""
    topic = talk.topic("a", max_message_bytes="1000")
    produce(talk, topic, batch(b"a" * 2000), batch(b"a" * 2000, compression=Compression.GZIP), batch(b"a" * 925))
    for size in (920, 921, 922, 923, 924, 926, 927, 928):
        produce(talk, topic, batch(b"a" * size))
    opened = talk.topic("b", max_message_bytes="1000", compression_type="uncompressed")
    produce(talk, opened, batch(b"a" * 2000, compression=Compression.GZIP))
    segmented = talk.topic("c", max_message_bytes="3000000", segment_bytes="1048576")
    produce(talk, segmented, batch(b"a" * 1_100_000))


@conversation(ApiKey.PRODUCE)
def produce_without_keys(talk: Talk) -> None:
    """Produces records without keys to compacted topics, which require keys."""
    topic = talk.topic("a", cleanup_policy="compact")
    produce(talk, topic, batch(b"a"), batch(b"a", key=None), batch(b"a", b"b", b"c", key=None), batch(b"a", key=b""))
    produce(talk, topic, batch(b"a", b"b", key=None, compression=Compression.GZIP))
    both = talk.topic("b", cleanup_policy="compact,delete")
    produce(talk, both, batch(b"a", key=None))


@conversation(ApiKey.PRODUCE)
def produce_to_too_few_replicas(talk: Talk) -> None:
    """Produces to a topic with one replica and `min.insync.replicas` of 2."""
    topic = talk.topic("a", min_insync_replicas="2")
    for acks in (-1, 1):
        produce(talk, topic, batch(b"a"), acks=acks)


@conversation(ApiKey.PRODUCE)
def produce_transactionally(talk: Talk) -> None:
    """Produces transactional batches of producers without a transaction."""
    topic = talk.topic("a")
    numbered: dict[str, Any] = {"producer_id": 40, "producer_epoch": 0, "base_sequence": 0}
    produce(talk, topic, batch(b"a", is_transactional=True, **numbered))
    produce(talk, topic, batch(b"a", is_transactional=True))
    produce(talk, topic, batch(b"a", is_control=True, is_transactional=True, **numbered))
    talk.ask(request((topic, {0: batch(b"a")}), transactional_id="t"))
    talk.ask(request((topic, {0: batch(b"a")}), (STRANGE, {0: batch(b"a", is_transactional=True)})))
    read(talk, topic)


@conversation(ApiKey.PRODUCE)
def produce_idempotently(talk: Talk) -> None:
    """Produces the next sequence, the last five again, the sixth last, gaps, parts, another epoch, and other
    producers."""
    topic = talk.topic("a")

    def send(sequence: int, *values: bytes, epoch: int = 0, producer_id: int = 70) -> None:
        records = batch(
            *(values or (b"v", b"w")), producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
        )
        produce(talk, topic, records)

    for sequence in range(0, 14, 2):
        send(sequence)
    for sequence in range(12, -2, -2):
        send(sequence)  # each batch again, from the last to the seventh last
    send(12, b"v")
    send(12, b"v", b"w", b"x")
    send(11)
    send(13)
    send(16)
    send(2**31 - 1)
    send(14)
    send(1, epoch=1)
    send(0, epoch=1)
    send(0, epoch=1)
    send(16)
    send(2, epoch=1)
    send(5, producer_id=71)
    send(6, producer_id=71)
    send(7, producer_id=71)
    send(0, producer_id=71, epoch=3)
    send(2, producer_id=71, epoch=5)
    send(-1, producer_id=72)
    send(0, producer_id=72, epoch=-1)
    send(-5, producer_id=72)
    send(2**31 - 2, producer_id=73)
    send(0, producer_id=73)
    send(2**31 - 1, producer_id=74)
    send(1, producer_id=74)
    send(0, epoch=32767, producer_id=74)
    send(0, producer_id=-2)
    send(7, producer_id=-1)
    send(-1, producer_id=-1, epoch=4)
    read(talk, topic)


@conversation(ApiKey.PRODUCE)
def produce_after_records_were_deleted(talk: Talk) -> None:
    """Repeats a batch whose records were deleted; the producer's state remains, and the answer has the log start
    offset."""
    topic = talk.topic("a")
    numbered = batch(b"a", b"b", producer_id=70, producer_epoch=0, base_sequence=0)
    produce(talk, topic, numbered)
    talk.delete_records(topic, 2)
    produce(talk, topic, numbered)
    produce(talk, topic, batch(b"c", producer_id=70, producer_epoch=0, base_sequence=2))
    asked = ListOffsetsTopic(name=topic.name, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-2)])
    talk.ask(ListOffsetsRequest(replica_id=-1, topics=[asked]), 7)
