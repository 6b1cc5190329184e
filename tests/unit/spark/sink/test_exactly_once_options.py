"""Tests that the exactly-once options are honoured with exactly-once semantics and refused without it."""

from __future__ import annotations

import pytest

from klamm.spark.sink.exactly_once import ExactlyOnce
from klamm.spark.sink.exactly_once_options import EXACTLY_ONCE_OPTIONS, ExactlyOnceOptions
from klamm.spark.sink.sink_columns import SinkColumns
from klamm.spark.sink.sink_options import SinkOptions
from klamm.spark.source.errors import OptionError

AT_LEAST_ONCE = {"kafka.bootstrap.servers": "localhost:9092", "topic": "flights"}
MINIMUM = {**AT_LEAST_ONCE, "klamm.sink.semantics": "exactly-once"}


def parse(**options: str) -> ExactlyOnceOptions:
    """Parses options; two underscores in a name stand for a dot."""
    parsed = SinkOptions.parse({**MINIMUM, **{key.replace("__", "."): value for key, value in options.items()}})
    assert parsed.exactly_once is not None
    return parsed.exactly_once


def test_defaults() -> None:
    """By default, the marker is in the topic, and the staging folder is in the checkpoint."""
    options = parse(checkpointLocation="s3a://bucket/checkpoint/")

    assert options.marker_topic == "flights"
    assert options.staging_folder == "s3a://bucket/checkpoint/klamm-sink"
    assert (options.inline_bytes, options.first_batch) == (1_048_576, None)


def test_own_values() -> None:
    """Each option can be set, and option names are case-insensitive."""
    options = parse(
        checkpointLocation="/c",
        KLAMM__SINK__STAGING="/s",
        klamm__sink__marker__topic="m",
        klamm__sink__first__batch="query/7",
    )

    assert (options.marker_topic, options.staging_folder, options.first_batch) == ("m", "/s", ("query", 7))
    assert parse(klamm__sink__inline__bytes="0").inline_bytes == 0


def test_the_transaction_timeout_reaches_the_producer() -> None:
    """`kafka.transaction.timeout.ms` reaches the producer, with Kafka's default of 60 seconds."""
    assert SinkOptions.parse(MINIMUM).producer.transaction_timeout_ms == 60_000
    options = SinkOptions.parse({**MINIMUM, "kafka.transaction.timeout.ms": "5000"})
    assert options.producer.transaction_timeout_ms == 5000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kafka.acks": "1"}, "transactions, which need kafka.acks=all"),
        ({"kafka.enable.idempotence": "false"}, "need kafka.acks=all and kafka.enable.idempotence=true"),
        ({"kafka.transactional.id": "t"}, "derives it from the query's id"),
        ({"asyncProgressTrackingEnabled": "true"}, "asyncProgressTrackingEnabled=true excludes"),
        ({"klamm.sink.inline.bytes": "-1"}, "klamm.sink.inline.bytes=-1: it is a whole number"),
        *(
            ({"klamm.sink.first.batch": value}, f"klamm.sink.first.batch={value}: it is the id of the query and")
            for value in ("x", "7", "/7", "query/", "query/-1", "query/²")
        ),
        ({"klamm.sink.staging": " "}, "'klamm.sink.staging' is empty"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, str], message: str) -> None:
    """A wrong option is refused with an error that gives the reason."""
    with pytest.raises(OptionError, match=message):
        SinkOptions.parse({**MINIMUM, **options})


def test_rows_that_name_their_topics_need_a_topic_for_the_marker() -> None:
    """A query whose rows name their topics must set a topic for the marker, so that the marker's topic never
    changes."""
    without = {key: value for key, value in MINIMUM.items() if key != "topic"}
    with pytest.raises(OptionError, match=r"Set klamm.sink.marker.topic"):
        SinkOptions.parse(without)

    parsed = SinkOptions.parse({**without, "klamm.sink.marker.topic": "m"}).exactly_once
    assert parsed is not None
    assert parsed.marker_topic == "m"


@pytest.mark.parametrize("option", EXACTLY_ONCE_OPTIONS)
def test_they_need_exactly_once(option: str) -> None:
    """An exactly-once option is refused for at-least-once semantics, where the option would have no effect."""
    with pytest.raises(OptionError, match=f"{option} has a meaning only with"):
        SinkOptions.parse({**AT_LEAST_ONCE, option: "1"})


def test_a_query_without_the_option_for_its_checkpoint_is_refused() -> None:
    """A query without the option `checkpointLocation` is refused, because the sink has no other way to find the
    checkpoint."""
    with pytest.raises(OptionError, match="needs the option checkpointLocation"):
        ExactlyOnce(SinkOptions.parse(MINIMUM), SinkColumns(value=0))
