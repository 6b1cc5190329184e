"""Tests that docs/reference/spark-sink.md documents every option of the sink."""

from __future__ import annotations

import re
from pathlib import Path

from klamm.spark.sink import producer_options, sink_options

PAGE = (Path(__file__).parents[4] / "docs" / "reference" / "spark-sink.md").read_text(encoding="utf-8")


def section(heading: str) -> str:
    """Returns the text below a heading, up to the next heading of the same or a higher level."""
    level = heading.partition(" ")[0]
    return re.split(rf"^#{{2,{len(level)}}} ", PAGE.partition(f"\n{heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def names(text: str) -> set[str]:
    """Returns all inline code of a text, in lower case."""
    return {name.lower() for name in re.findall(r"`([^`]+)`", text)}


def first_column(heading: str) -> set[str]:
    """Returns the option names in the first column of the tables below a heading."""
    return names("".join(line.split(" | ")[0] for line in section(heading).splitlines() if line.startswith("| `")))


def test_every_option_with_an_effect_is_told() -> None:
    """The page documents the options of Spark's sink, of Kafka's producer, and of klamm."""
    told = names(section("### Same as in Spark's Kafka sink")) | first_column("### Only here")
    of_kafka = {f"kafka.{key}" for key in producer_options.HONOURED_PRODUCER_KEYS}

    assert sorted({*sink_options._SINK_OPTIONS, *of_kafka, *sink_options._KLAMM_OPTIONS} - told) == []
    assert {"kafka.security.protocol", "kafka.ssl.*", "kafka.sasl.*"} <= told


def test_every_option_of_spark_is_told() -> None:
    """The page lists exactly the options that Spark reads itself and passes on to the sink."""
    assert first_column("### Options of Spark") == sink_options._SPARKS_OWN


def test_every_option_without_effect_is_told_with_its_reason() -> None:
    """The table of options without effect lists exactly the keys that klamm ignores."""
    without = {f"kafka.{key}" for key in producer_options._PRODUCER_KEYS_WITHOUT_EFFECT}

    assert first_column("### Without effect, with a warning") == without


def test_every_refused_option_is_told() -> None:
    """The page lists the refused keys, both those that Spark refuses and those that name Java classes."""
    refused = {f"kafka.{key}" for key in producer_options._REFUSED}

    assert refused <= first_column("### Refused")
