"""Tests that every option is honoured, refused with a reason, or named as having no effect; none is dropped
silently."""

from __future__ import annotations

import logging

import pytest

from klamm.protocol.types import TopicPartition
from klamm.spark.source.errors import OptionError
from klamm.spark.source.options.options import SourceOptions
from klamm.spark.source.options.positions import AtTimestamp, AtTimestamps
from klamm.spark.source.options.read_limits import Division, TriggerLimits

MINIMUM = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "flights"}


def test_defaults_are_those_of_spark() -> None:
    """Defaults are Spark's: a stream starts at latest, a batch reads the whole log, and data loss fails the query."""
    stream = SourceOptions.for_stream(MINIMUM)
    batch = SourceOptions.for_batch(MINIMUM)

    assert (stream.starting_offsets, batch.starting_offsets, batch.ending_offsets) == ("latest", "earliest", "latest")
    assert stream.fail_on_data_loss
    assert not stream.include_headers
    assert stream.limits == TriggerLimits(max_offsets=None, min_offsets=None, max_delay_ms=15 * 60 * 1000)
    assert stream.division == Division(min_partitions=None, max_records=None)
    assert (stream.offset_retries.attempts, stream.offset_retries.interval_ms) == (3, 1000)
    assert stream.group_id is None


def test_keys_are_case_insensitive() -> None:
    """Option names are case-insensitive: Spark passes them in lower case, and users write them as in the
    documentation."""
    options = SourceOptions.for_stream({**MINIMUM, "maxOffsetsPerTrigger": "10", "INCLUDEHEADERS": "True"})

    assert options.limits.max_offsets == 10
    assert options.include_headers


def test_topics_are_split_at_commas() -> None:
    """`subscribe` is split at commas; blanks around names, empty names and repeated names are dropped."""
    options = SourceOptions.for_stream({**MINIMUM, "subscribe": " a, b ,,a"})

    assert options.subscription.topics == ("a", "b")


def test_partitions_can_be_assigned() -> None:
    """`assign` names partitions instead of topics."""
    options = SourceOptions.for_batch({"kafka.bootstrap.servers": "h:1", "assign": '{"a":[1]}'})

    assert options.subscription.partitions == (TopicPartition("a", 1),)  # type: ignore[arg-type]


def test_kafka_options_reach_the_client() -> None:
    """Kafka options reach the client under Kafka's own names."""
    options = SourceOptions.for_stream(
        {
            **MINIMUM,
            "kafka.group.id": "g",
            "kafka.isolation.level": "read_committed",
            "kafka.request.timeout.ms": "5000",
        }
    )

    assert options.group_id == "g"
    assert options.client.isolation_level == "read_committed"
    assert options.client.request_timeout_ms == 5000


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"startingOfsets": "earliest"}, "unknown option 'startingofsets'.*did you mean startingOffsets"),
        ({"path": "/tmp"}, "unknown option 'path'"),
        ({"minPartitions": "0"}, "minPartitions must be positive"),
        ({"maxRecordsPerPartition": "-1"}, "maxRecordsPerPartition must be positive"),
        ({"minOffsetsPerTrigger": "11", "maxOffsetsPerTrigger": "10"}, "minOffsetPerTrigger.11. is higher than"),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay=soon: Time must be specified as seconds"),
        ({"maxTriggerDelay": "3 weeks"}, "Time must be specified"),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp: Expected a single long value, got yesterday"),
        ({"startingTimestamp": "-1"}, "Expected a single long value"),
        ({"startingOffsetsByTimestamp": "7"}, "startingOffsetsByTimestamp: Expected e.g."),
        ({"startingOffsetsByTimestamp": '{"a":{"0":-2}}'}, "no time in milliseconds"),
        ({"startingOffsetsByTimestampStrategy": "earliest"}, "it is error or latest"),
        ({"endingTimestamp": "7"}, "ending timestamp not valid in streaming queries"),
        ({"endingOffsetsByTimestamp": "{}"}, "ending timestamp not valid in streaming queries"),
        ({"fetchOffset.numRetries": "0"}, "fetchOffset.numRetries=0"),
        ({"fetchOffset.retryIntervalMs": "1s"}, "fetchOffset.retryIntervalMs=1s"),
        ({"kafkaConsumer.pollTimeoutMs": "0"}, "kafkaConsumer.pollTimeoutMs=0"),
        ({"klamm.filterPushDown": "perhaps"}, "klamm.filterPushdown=perhaps"),
        ({"klamm.filter": "true"}, "unknown option 'klamm.filter'; there are klamm.filterPushdown"),
        ({"assign": '{"a":[1]}'}, "Only one of"),
        ({"subscribe": " , "}, "No topics to subscribe"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger=0"),
        ({"maxOffsetsPerTrigger": "many"}, "maxOffsetsPerTrigger=many"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss=maybe"),
        ({"startingOffsets": "newest"}, "startingOffsets: Expected e.g."),
        (
            {"kafka.auto.offset.reset": "earliest"},
            "'auto.offset.reset' is not supported.*'startingoffsets' to 'earliest'",
        ),
        ({"kafka.enable.auto.commit": "true"}, "kafka.group.id"),
        ({"kafka.value.deserializer": "x"}, "'value.deserializer' is not supported"),
        ({"kafka.security.protocol": "SASL_PLAINTEXT"}, r"kafka\.sasl\.mechanism is missing.*Kerberos"),
        (
            {"kafka.security.protocol": "SSL", "kafka.ssl.truststore.location": "a.jks"},
            r"kafka\.ssl\.truststore\.type=JKS.*only PEM.*keytool",
        ),
        ({"kafka.ssl.no.such.key": "1"}, r"kafka\.ssl\.no\.such\.key: it is no configuration key"),
        ({"kafka.fetch.max.byte": "1"}, "unknown Kafka option 'fetch.max.byte'"),
        ({"kafka.request.timeout.ms": "soon"}, "kafka.request.timeout.ms=soon"),
        ({"kafka.bootstrap.servers": "localhost"}, "'localhost' is not host:port"),
        ({"kafka.group.id": ""}, "kafka.group.id is empty"),
    ],
)
def test_what_cannot_be_honoured_is_refused(extra: dict[str, str], message: str) -> None:
    """An option that can't be honoured is refused with an error that names it and says what to do."""
    with pytest.raises(OptionError, match=message):
        SourceOptions.for_stream({**MINIMUM, **extra})


def test_the_least_that_must_be_said() -> None:
    """The bootstrap servers and a subscription are required."""
    with pytest.raises(OptionError, match="One of the following options"):
        SourceOptions.for_stream({"kafka.bootstrap.servers": "h:1"})
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers"):
        SourceOptions.for_stream({"subscribe": "a"})


def test_a_stream_has_no_ending_offsets() -> None:
    """A stream with ending offsets is refused, as in Spark."""
    with pytest.raises(OptionError, match="not valid in streaming"):
        SourceOptions.for_stream({**MINIMUM, "endingOffsets": "latest"})


@pytest.mark.parametrize(
    "extra",
    [
        {"startingOffsets": "latest"},
        {"startingOffsets": '{"flights":{"0":-1}}'},
        {"endingOffsets": "earliest"},
        {"endingOffsets": '{"flights":{"0":-2}}'},
    ],
)
def test_a_batch_reads_forward(extra: dict[str, str]) -> None:
    """A batch that starts at latest or ends at earliest is refused."""
    with pytest.raises(OptionError, match="for batch queries"):
        SourceOptions.for_batch({**MINIMUM, **extra})


@pytest.mark.parametrize("option", ["kafka.session.timeout.ms", "kafka.max.poll.records", "groupIdPrefix"])
def test_an_option_without_effect_is_warned_of(option: str, caplog: pytest.LogCaptureFixture) -> None:
    """An option that only tunes the Java consumer has no effect and causes a warning."""
    with caplog.at_level(logging.WARNING, "klamm.spark"):
        SourceOptions.for_stream({**MINIMUM, option: "1"})

    assert "no effect" in caplog.text


def test_an_option_for_the_other_kind_of_read_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """An option that has an effect only on a stream, or only on a batch read, causes a warning in the other one."""
    of_streams = {"klamm.group.conflict": "fail", "klamm.group.checkpointLocation": "/checkpoints/q"}
    of_batches = {"klamm.filterPushdown": "true"}
    given = {**MINIMUM, "kafka.group.id": "g"}
    with caplog.at_level(logging.WARNING, "klamm.spark"):
        SourceOptions.for_stream({**given, **of_streams})
        SourceOptions.for_batch({**given, **of_batches})
        assert not caplog.records

        SourceOptions.for_stream({**given, **of_batches})
        SourceOptions.for_batch({**given, **of_streams})

    assert [record.getMessage().split(" has no effect")[0] for record in caplog.records] == [*of_batches, *of_streams]


def test_times_come_before_offsets() -> None:
    """If several options set the same end, a single timestamp wins over timestamps by partition, and those over
    offsets."""
    offsets = {"startingOffsets": "earliest", "endingOffsets": '{"flights":{"0":7}}'}
    times = {"startingOffsetsByTimestamp": '{"flights":{"0":5}}', "endingOffsetsByTimestamp": '{"flights":{"0":9}}'}
    one = {"startingTimestamp": " 3 ", "endingTimestamp": "8"}
    place = TopicPartition("flights", 0)  # type: ignore[arg-type]

    by_times = SourceOptions.for_batch({**MINIMUM, **offsets, **times})
    by_time = SourceOptions.for_batch(
        {**MINIMUM, **offsets, **times, **one, "startingOffsetsByTimestampStrategy": "LATEST"}
    )

    assert by_times.starting_offsets == AtTimestamps({place: 5}, latest_if_none=False)  # type: ignore[dict-item]
    assert by_times.ending_offsets == AtTimestamps({place: 9}, latest_if_none=True)  # type: ignore[dict-item]
    assert by_time.starting_offsets == AtTimestamp(3, latest_if_none=True)  # type: ignore[arg-type]
    assert by_time.ending_offsets == AtTimestamp(8, latest_if_none=True)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        ('{"a":{"0":5}}', '{"a":{"0":4}}', "start offset 5 is greater than the end offset 4 for topic a partition 0"),
        ('{"a":{"0":5}}', '{"a":{"0":7,"1":8}}', "should have the same topic-partitions"),
    ],
)
def test_two_ends_of_a_batch_have_to_match(start: str, end: str, message: str) -> None:
    """The start and the end of a batch are compared offsets with offsets and timestamps with timestamps."""
    with pytest.raises(OptionError, match=message):
        SourceOptions.for_batch({**MINIMUM, "startingOffsets": start, "endingOffsets": end})
    with pytest.raises(
        OptionError, match=message.replace("offset 5", "timestamp 5").replace("offset 4", "timestamp 4")
    ):
        SourceOptions.for_batch({**MINIMUM, "startingOffsetsByTimestamp": start, "endingOffsetsByTimestamp": end})


def test_limits_of_triggers_are_ignored_by_a_batch(caplog: pytest.LogCaptureFixture) -> None:
    """A batch ignores trigger limits and warns about each, as in Spark."""
    with caplog.at_level(logging.WARNING, "klamm.spark"):
        SourceOptions.for_batch(
            {**MINIMUM, "maxOffsetsPerTrigger": "9", "minOffsetsPerTrigger": "3", "maxTriggerDelay": "1h"}
        )

    assert [record.getMessage().split()[0] for record in caplog.records] == [
        "maxOffsetsPerTrigger",
        "minOffsetsPerTrigger",
        "maxTriggerDelay",
    ]


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("250", 250), ("250ms", 250), ("5s", 5_000), (" 2M ", 120_000), ("2min", 120_000), ("1h", 3_600_000)],
)
def test_delays_are_written_as_in_spark(text: str, milliseconds: int) -> None:
    """A delay is written as in Spark, and a plain number means milliseconds."""
    assert SourceOptions.for_stream({**MINIMUM, "maxTriggerDelay": text}).limits.max_delay_ms == milliseconds


def test_a_task_waits_as_long_as_a_poll_may() -> None:
    """`kafkaConsumer.pollTimeoutMs` applies to reading only, not to planning."""
    options = SourceOptions.for_stream({**MINIMUM, "kafkaConsumer.pollTimeoutMs": "1234"})

    assert options.reading_client.default_api_timeout_ms == 1234
    assert options.client.default_api_timeout_ms == 60_000
    assert SourceOptions.for_stream(MINIMUM).reading_client == SourceOptions.for_stream(MINIMUM).client
