"""Tests that every option of a writer is honoured, refused with a reason, or named as having no effect."""

from __future__ import annotations

import logging

import pytest

from klamm.client.config import HONOURED_KEYS
from klamm.client.producer.producer_config import PRODUCER_KEYS
from klamm.protocol.compression import Compression
from klamm.spark.sink import producer_options
from klamm.spark.sink.sink_options import MicroBatch, SinkOptions
from klamm.spark.source.errors import OptionError

MINIMUM = {"kafka.bootstrap.servers": "localhost:9092"}


def parse(**options: str) -> SinkOptions:
    """Parses options; two underscores in a name stand for a dot."""
    return SinkOptions.parse({**MINIMUM, **{key.replace("__", "."): value for key, value in options.items()}})


def test_defaults() -> None:
    """Defaults are those of Java's producer: acks=all, idempotent, murmur2; missing topics may be created."""
    options = SinkOptions.parse(MINIMUM)

    assert options.topic is None
    assert options.exactly_once is None
    assert options.micro_batch is None
    assert not options.ignores_keys
    producer = options.producer
    assert (producer.acks, producer.enable_idempotence, producer.partitioner) == (-1, True, "murmur2")
    assert (producer.compression, producer.compression_level) == (Compression.NONE, None)
    assert (producer.delivery_timeout_ms, producer.max_request_size_bytes) == (120_000, 1_048_576)
    assert producer.allow_auto_create_topics


def test_kafka_options_reach_the_producer() -> None:
    """Kafka options reach the producer with Kafka's names, units and values; option names are case-insensitive."""
    producer = parse(
        KAFKA__ACKS="1",
        kafka__batch__size="1000",
        kafka__client__id="writer",
        kafka__compression__type="zstd",
        kafka__compression__zstd__level="-5",
        kafka__compression__gzip__level="9",
        kafka__max__in__flight__requests__per__connection="2",
        kafka__request__timeout__ms="5000",
        kafka__ssl__endpoint__identification__algorithm="",
        kafka__security__protocol="SSL",
    ).producer

    assert (producer.acks, producer.enable_idempotence) == (1, False)
    assert (producer.batch_size_bytes, producer.max_in_flight) == (1000, 2)
    assert (producer.compression, producer.compression_level) == (Compression.ZSTD, -5)
    assert (producer.client.client_id, producer.client.request_timeout_ms) == ("writer", 5000)
    assert producer.client.security.protocol == "SSL"


def test_the_default_level_of_gzip_has_a_number() -> None:
    """The gzip level -1 selects the default level, as in Kafka."""
    producer = parse(kafka__compression__type="gzip", kafka__compression__gzip__level="-1").producer

    assert producer.compression_level is None


def test_own_options() -> None:
    """klamm's own options are parsed: the trimmed topic, librdkafka's partitioner, ignored keys, and the
    micro-batch."""
    options = parse(
        topic=" flights ",
        klamm__partitioner="consistent_random",
        kafka__partitioner__ignore__keys="true",
        klamm__sink__semantics="at-least-once",
        klamm__sink__queryId="q",
        klamm__sink__batchId="7",
    )

    assert options.topic == "flights"
    assert options.producer.partitioner == "consistent_random"
    assert options.ignores_keys
    assert options.micro_batch == MicroBatch("q", 7)


@pytest.mark.parametrize(
    "option",
    ["checkpointLocation", "queryName", "asyncProgressTrackingEnabled", "asyncProgressTrackingCheckpointIntervalMs"],
)
def test_sparks_own_options_are_left_to_spark(option: str) -> None:
    """Spark passes its own options on to the sink, and the sink accepts them."""
    assert SinkOptions.parse({**MINIMUM, option: "x"}) == SinkOptions.parse(MINIMUM)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topics": "a"}, "unknown option 'topics' .*: did you mean topic?"),
        ({"retries": "3"}, "unknown option 'retries' .*: its options are those of Spark's Kafka sink"),
        ({"klamm.partitoner": "murmur2"}, "did you mean klamm.partitioner?"),
        ({"klamm.other": "x"}, "unknown option 'klamm.other' .*: there are klamm.partitioner, "),
        ({"path": "/tmp"}, "take no path here: the option 'topic' names the topic"),
        ({"subscribe": "a"}, "the option 'subscribe' is for reading"),
        ({"klamm.group.mode": "member"}, "the option 'klamm.group.mode' is for reading"),
        ({"topic": " "}, "'topic' is empty"),
        ({"includeHeaders": "maybe"}, "includeHeaders=maybe: it is true or false"),
        ({"klamm.partitioner": "crc"}, "klamm.partitioner=crc: it is murmur2 or consistent_random"),
        ({"klamm.sink.semantics": "twice"}, "it is at-least-once or exactly-once"),
        ({"klamm.sink.batchId": "1"}, "belong together"),
        ({"klamm.sink.queryId": "q"}, "belong together"),
        ({"klamm.sink.queryId": "q", "klamm.sink.batchId": "x"}, "klamm.sink.batchId=x: it is a whole number"),
        ({"kafka.key.serializer": "x.Y"}, "'key.serializer' is not supported as keys are serialized"),
        ({"kafka.value.serializer": "x.Y"}, "'value.serializer' is not supported as value are serialized"),
        ({"kafka.partitioner.class": "x.Y"}, "Set klamm.partitioner to murmur2"),
        ({"kafka.interceptor.classes": "x.Y"}, "'interceptor.classes' is not supported"),
        (
            {"kafka.transactional.id": "t"},
            "without it the sink writes without transactions",
        ),
        ({"kafka.group.id": "g"}, "unknown Kafka option 'group.id': it is no configuration key of Kafka's producer"),
        ({"kafka.fetch.min.bytes": "1"}, "unknown Kafka option 'fetch.min.bytes'"),
        ({"kafka.partitioner": "murmur2"}, "unknown Kafka option 'partitioner'"),
        ({"kafka.compression.level": "1"}, "unknown Kafka option 'compression.level'"),
        ({"kafka.allow.auto.create.topics": "false"}, "unknown Kafka option 'allow.auto.create.topics'"),
        ({"kafka.acks": "2"}, "kafka.acks=2: it is all, 1 or 0"),
        ({"kafka.acks": "1", "kafka.enable.idempotence": "true"}, "kafka.enable.idempotence=true needs acks=all"),
        ({"kafka.compression.type": "brotli"}, "kafka.compression.type=brotli"),
        ({"kafka.compression.gzip.level": "10"}, "kafka.compression.gzip.level=10: it is a whole number from 1 to 9"),
        ({"kafka.compression.zstd.level": "much"}, "it is a whole number from -131072 to 22"),
        ({"kafka.max.block.ms": "soon"}, "kafka.max.block.ms=soon: it is a whole number"),
        ({"kafka.delivery.timeout.ms": "10"}, "kafka.delivery.timeout.ms=10 is less than linger.ms"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, str], message: str) -> None:
    """A wrong option is refused with an error that says what is wrong and what to write instead."""
    with pytest.raises(OptionError, match=message):
        SinkOptions.parse({**MINIMUM, **options})


def test_the_brokers_must_be_named() -> None:
    """`kafka.bootstrap.servers` is required and has no default."""
    with pytest.raises(OptionError, match=r"Option 'kafka\.bootstrap.servers' must be specified"):
        SinkOptions.parse({"topic": "a"})


def test_keys_without_effect_are_named(caplog: pytest.LogCaptureFixture) -> None:
    """Keys without effect are named in one warning, even if a stream parses its options for each micro-batch."""
    with caplog.at_level(logging.WARNING):
        for batch_id in ("0", "1"):
            parse(kafka__metric__reporters="x.Y", klamm__sink__queryId="q", klamm__sink__batchId=batch_id)

    assert caplog.text.count("'metric.reporters' has no effect") == 1


# `ProducerConfig.configDef()` of Apache Kafka 4.3, without the keys that begin with `ssl.` and `sasl.`.
ALL_KEYS = """
acks batch.size bootstrap.servers buffer.memory client.dns.lookup client.id compression.gzip.level compression.lz4.level
compression.type compression.zstd.level config.providers connections.max.idle.ms delivery.timeout.ms enable.idempotence
enable.metrics.push interceptor.classes key.serializer linger.ms max.block.ms max.in.flight.requests.per.connection
max.request.size metadata.max.age.ms metadata.max.idle.ms metadata.recovery.rebootstrap.trigger.ms
metadata.recovery.strategy metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.class partitioner.ignore.keys
receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms retries retry.backoff.max.ms
retry.backoff.ms security.protocol security.providers send.buffer.bytes socket.connection.setup.timeout.max.ms
socket.connection.setup.timeout.ms transaction.timeout.ms transaction.two.phase.commit.enable transactional.id
value.serializer
"""


@pytest.mark.parametrize("key", ALL_KEYS.split())
def test_every_key_of_kafkas_producer_is_known(key: str) -> None:
    """No key of Kafka's producer is refused as unknown."""
    try:
        SinkOptions.parse({**MINIMUM, f"kafka.{key}": "h:1" if key == "bootstrap.servers" else "x"})
    except OptionError as error:
        assert "unknown" not in str(error)  # noqa: PT017


def test_what_is_passed_on_is_a_key_of_klamms_producer() -> None:
    """Every key that the sink passes on is a key of klamm's producer, so the producer refuses none as unknown."""
    assert producer_options._PRODUCER_KEYS <= PRODUCER_KEYS
    assert producer_options._CLIENT_KEYS <= HONOURED_KEYS
