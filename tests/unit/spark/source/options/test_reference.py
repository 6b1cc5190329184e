"""Tests that docs/reference/spark-source.md and docs/reference/security-options.md document every option."""

from __future__ import annotations

import re
from pathlib import Path

from klamm.client.config import HONOURED_KEYS
from klamm.client.security import SECURITY_KEYS
from klamm.spark.source.options import kafka_options, klamm_options, options

REFERENCE = Path(__file__).parents[5] / "docs" / "reference"
PAGE = (REFERENCE / "spark-source.md").read_text(encoding="utf-8")
SECURITY_PAGE = (REFERENCE / "security-options.md").read_text(encoding="utf-8")


def section(heading: str, page: str = PAGE) -> str:
    """Returns the text below a heading, up to the next heading of the same or a higher level."""
    level = heading.partition(" ")[0]
    return re.split(rf"^#{{2,{len(level)}}} ", page.partition(f"\n{heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def names(text: str) -> set[str]:
    """Returns all inline code of a text, in lower case."""
    return {name.lower() for name in re.findall(r"`([^`]+)`", text)}


def first_column(text: str) -> set[str]:
    """Returns the option names in the first column of tables."""
    return names("".join(line.split(" | ")[0] for line in text.splitlines() if line.startswith("| `")))


def test_every_option_with_an_effect_is_told() -> None:
    """The pages document the options of Spark's source, of Kafka's consumer, and of klamm."""
    told = names(section("### Same as in Spark's Kafka source") + section("### Only here") + section("## The group"))
    of_kafka = {f"kafka.{key}" for key in {*HONOURED_KEYS, "group.id"} - SECURITY_KEYS}
    of_klamm = {row.name.lower() for row in klamm_options._ROWS}

    assert sorted({*options.SOURCE_OPTIONS, *of_kafka, *of_klamm} - told) == []
    assert {"kafka.security.protocol", "kafka.ssl.*", "kafka.sasl.*"} <= told
    of_security = first_column(section("## Honoured", SECURITY_PAGE) + section("## Refused", SECURITY_PAGE))
    assert sorted(SECURITY_KEYS - of_security) == []


def test_every_option_without_effect_is_told_with_its_reason() -> None:
    """The table of options without effect lists exactly the options that klamm ignores."""
    without = {f"kafka.{key}" for key in kafka_options._CONSUMER_KEYS_WITHOUT_EFFECT}

    assert first_column(section("### Without effect, with a warning")) == {*without, *options._WITHOUT_EFFECT}


def test_every_refused_option_is_told() -> None:
    """The page lists the keys that Spark refuses."""
    refused = {f"kafka.{key}" for key in kafka_options._REFUSED_AS_IN_SPARK}

    assert refused <= first_column(section("### Refused"))
