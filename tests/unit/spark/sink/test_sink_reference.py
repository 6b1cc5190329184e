"""docs/reference/spark-sink.md tells every option of the sink."""

from __future__ import annotations

import re
from pathlib import Path

from klamm.spark.sink import producer_options, sink_options

PAGE = (Path(__file__).parents[4] / "docs" / "reference" / "spark-sink.md").read_text(encoding="utf-8")


def section(heading: str) -> str:
    """Returns what stands below a heading, up to the next one that is as high."""
    level = heading.partition(" ")[0]
    return re.split(rf"^#{{2,{len(level)}}} ", PAGE.partition(f"\n{heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def names(text: str) -> set[str]:
    """Returns what is set as code, in lower case."""
    return {name.lower() for name in re.findall(r"`([^`]+)`", text)}


def first_column(heading: str) -> set[str]:
    """Returns the options that the rows of tables are about."""
    return names("".join(line.split(" | ")[0] for line in section(heading).splitlines() if line.startswith("| `")))


def test_every_option_with_an_effect_is_told() -> None:
    """Those of Spark's sink, those of Kafka's producer, and klamm's own."""
    told = names(section("### Same as in Spark's Kafka sink")) | first_column("### Only here")
    of_kafka = {f"kafka.{key}" for key in producer_options.HONOURED_PRODUCER_KEYS}

    assert sorted({*sink_options._SINK_OPTIONS, *of_kafka, *sink_options._KLAMM_OPTIONS} - told) == []
    assert {"kafka.security.protocol", "kafka.ssl.*", "kafka.sasl.*"} <= told


def test_every_option_without_effect_is_told_with_its_reason() -> None:
    """By its name, and nothing else is said to have none."""
    without = {f"kafka.{key}" for key in producer_options._PRODUCER_KEYS_WITHOUT_EFFECT}

    assert first_column("### Without effect, with a warning") == without


def test_every_refused_option_is_told() -> None:
    """Those that Spark refuses as well, and those that name Java classes."""
    refused = {f"kafka.{key}" for key in producer_options._REFUSED}

    assert refused <= first_column("### Refused")
