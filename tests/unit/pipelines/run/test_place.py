"""Tests the names of groups, topics, paths and folders with and without an environment."""

from __future__ import annotations

from typing import Any

import pytest

from klamm.pipelines import Pipeline, PipelineError, dead_letters, to_files, to_format, to_topic, topic
from klamm.pipelines.declare.flow import Flow
from klamm.pipelines.errors import DeclarationError
from klamm.pipelines.run.place import Place
from klamm.pipelines.run.source_options import source_options


def place(environment: str | None = None, checkpoints: str = "/checkpoints/") -> Place:
    return Place.at(
        "flights",
        bootstrap_servers="kafka:9092",
        checkpoints=checkpoints,
        environment=environment,
        client_options={"kafka.security.protocol": "SSL"},
    )


def flow(**arguments: Any) -> Flow:
    pipeline = Pipeline("flights")
    given = {"source": topic("flights", headers=True, max_records_per_batch=9), "sink": to_topic("delays")}
    pipeline.flow(**{**given, **arguments})(lambda flights: flights)
    return pipeline.flows[arguments["name"]]


def test_names_without_an_environment() -> None:
    """Without an environment, groups and dead letters have the names of the pipeline and the flow."""
    here, delays = place(), flow(name="delays")

    assert here.group(delays, "flights") == "flights.delays"
    assert here.group(delays, "flights", is_dead_letters=True) == "flights.delays.dead-letters"
    assert here.dead_letters_topic(delays) == "flights.delays.dead-letters"
    assert here.topic("delays") == "delays"
    assert here.flow_folder("delays") == "/checkpoints/_/flights/delays"
    assert here.dead_letters_checkpoint("delays") == "/checkpoints/_/flights/delays/dead-letters/checkpoint"


def test_names_in_an_environment() -> None:
    """An environment has its own groups, topics to write, and folders; it reads the same topics."""
    test, delays = place("test"), flow(name="delays", bad_records=dead_letters("bad"))

    assert test.group(delays, "flights") == "test.flights.delays"
    assert test.topic("delays") == "test.delays"
    assert test.dead_letters_topic(delays) == "test.bad"
    assert test.flow_folder("delays") == "/checkpoints/test/flights/delays"
    assert source_options(test, delays, "flights", starting_offsets=None)["subscribe"] == "flights"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/data/late", "/data/test/late"),
        ("late/", "test/late"),
        ("s3a://bucket/late", "s3a://bucket/test/late"),
        ("/data/{environment}-late", "/data/test-late"),
    ],
)
def test_paths_in_an_environment(path: str, expected: str) -> None:
    """The environment is a folder above the last part of a path, or stands where the path names it."""
    assert place("test").path(path) == expected
    assert place().files_path(to_files("/data/late")) == "/data/late"
    with pytest.raises(DeclarationError, match=r"write \{environment\} in it"):
        place("test").path("s3a://bucket")


def test_a_format_names_the_environment() -> None:
    """A sink without a path needs the environment in one of its options, so that environments do not share it."""
    named, shared = to_format("iceberg", table="{environment}.late"), to_format("iceberg", table="late")

    assert place("test").format_options(flow(name="a"), named) == {"table": "test.late"}
    assert place().format_options(flow(name="a"), shared) == {"table": "late"}
    with pytest.raises(DeclarationError, match="would write to the same place"):
        place("test").format_options(flow(name="a"), shared)


def test_a_sink_that_names_an_environment_needs_one() -> None:
    """Without an environment there is no name to write, neither in a path nor in an option."""
    for sink in (to_format("delta", path="/data/{environment}/late"), to_files("/data/{environment}/late")):
        with pytest.raises(DeclarationError, match=r"'/data/\{environment\}/late' names .*choose one with --env"):
            place().files_path(sink)
    with pytest.raises(DeclarationError, match=r"'\{environment\}\.late' names"):
        place().format_options(flow(name="a"), to_format("iceberg", table="{environment}.late"))


@pytest.mark.parametrize("environment", ["", "a.b", "_", "a/b"])
def test_what_is_no_environment(environment: str) -> None:
    """An environment is one word, because it begins the ids of groups and is a folder."""
    with pytest.raises(PipelineError, match="can't be an environment"):
        place(environment)


def test_the_options_of_a_source() -> None:
    """The source gets the cluster, the group, the stop file, the limit and the start; dead letters get headers, and
    the flow's checkpoint instead of the stop file."""
    delays = flow(name="delays", source=topic(pattern="fl.*", options={"failOnDataLoss": False}))

    options = source_options(place(), delays, "flights", starting_offsets="{}", is_dead_letters=True)

    assert options == {
        "kafka.bootstrap.servers": "kafka:9092",
        "kafka.security.protocol": "SSL",
        "kafka.group.id": "flights.delays.dead-letters",
        "subscribePattern": "fl.*",
        "startingOffsets": "{}",
        "includeHeaders": "true",
        "failOnDataLoss": "false",
        "klamm.follow.checkpointLocation": "/checkpoints/_/flights/delays/checkpoint",
    }
    assert source_options(place(), flow(name="a"), "flights", starting_offsets=None)["maxOffsetsPerTrigger"] == "9"


@pytest.mark.parametrize(
    ("path", "environment", "expected"),
    [
        ("data/orders", None, "/test/files/data/orders"),
        ("/data/orders", None, "/test/files/data/orders"),
        ("data/orders", "dev", "/test/files/data/dev/orders"),
        ("s3://bucket/data/orders", None, "/test/files/s3/bucket/data/orders"),
    ],
)
def test_the_files_of_a_test_are_below_its_folder(path: str, environment: str | None, expected: str) -> None:
    """No path that a pipeline names is written to, on no file system."""
    here = Place.at("p", bootstrap_servers="b:1", checkpoints="/c", environment=environment, files_below="/test/files/")
    assert here.path(path) == expected
