"""Every option is honoured, refused with a reason, or named as having no effect; none is dropped silently."""

from __future__ import annotations

import logging

import pytest

from klamm.protocol.types import TopicPartition
from klamm.spark.source.errors import OptionError
from klamm.spark.source.options import SourceOptions

MINIMUM = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "flights"}


def test_defaults_are_those_of_spark() -> None:
    """A stream starts at latest, a batch spans all there is, loss fails the query."""
    stream = SourceOptions.for_stream(MINIMUM)
    batch = SourceOptions.for_batch(MINIMUM)

    assert (stream.starting_offsets, batch.starting_offsets, batch.ending_offsets) == ("latest", "earliest", "latest")
    assert stream.fail_on_data_loss
    assert not stream.include_headers
    assert stream.max_offsets_per_trigger is None
    assert stream.group_id is None


def test_keys_are_case_insensitive() -> None:
    """Spark hands them over in lower case, people write them as the documentation does."""
    options = SourceOptions.for_stream({**MINIMUM, "maxOffsetsPerTrigger": "10", "INCLUDEHEADERS": "True"})

    assert options.max_offsets_per_trigger == 10
    assert options.include_headers


def test_topics_are_split_at_commas() -> None:
    """Blanks around the names are dropped."""
    options = SourceOptions.for_stream({**MINIMUM, "subscribe": " a, b ,,a"})

    assert options.subscription.topics == ("a", "b")


def test_partitions_can_be_assigned() -> None:
    """`assign` names partitions instead of topics."""
    options = SourceOptions.for_batch({"kafka.bootstrap.servers": "h:1", "assign": '{"a":[1]}'})

    assert options.subscription.partitions == (TopicPartition("a", 1),)  # type: ignore[arg-type]


def test_kafka_options_reach_the_client() -> None:
    """With Kafka's own names."""
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
        ({"startingOfsets": "earliest"}, "unknown option 'startingofsets'"),
        ({"path": "/tmp"}, "unknown option 'path'"),
        ({"subscribePattern": "a.*"}, "'subscribePattern'.*not supported yet"),
        ({"minPartitions": "4"}, "'minPartitions'.*not supported yet"),
        ({"assign": '{"a":[1]}'}, "Only one of"),
        ({"subscribe": " , "}, "No topics to subscribe"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger=0"),
        ({"maxOffsetsPerTrigger": "many"}, "maxOffsetsPerTrigger=many"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss=maybe"),
        ({"startingOffsets": "newest"}, "startingOffsets: expected"),
        ({"kafka.auto.offset.reset": "earliest"}, "'auto.offset.reset' is not supported.*startingOffsets"),
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
    """The error names the option and says what to do."""
    with pytest.raises(OptionError, match=message):
        SourceOptions.for_stream({**MINIMUM, **extra})


def test_the_least_that_must_be_said() -> None:
    """Where the cluster is, and what to read."""
    with pytest.raises(OptionError, match="One of the following options"):
        SourceOptions.for_stream({"kafka.bootstrap.servers": "h:1"})
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers"):
        SourceOptions.for_stream({"subscribe": "a"})


def test_a_stream_has_no_ending_offsets() -> None:
    """As in Spark."""
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
    """It can't start at the end or end at the start."""
    with pytest.raises(OptionError, match="for batch queries"):
        SourceOptions.for_batch({**MINIMUM, **extra})


@pytest.mark.parametrize("option", ["kafka.session.timeout.ms", "kafka.max.poll.records", "fetchOffset.numRetries"])
def test_an_option_without_effect_is_warned_of(option: str, caplog: pytest.LogCaptureFixture) -> None:
    """Those that only tune the Java consumer."""
    with caplog.at_level(logging.WARNING, "klamm.spark"):
        SourceOptions.for_stream({**MINIMUM, option: "1"})

    assert "no effect" in caplog.text
