"""Tests that klamm's table of Kafka's configuration keys equals the definitions in Apache Kafka."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.java

ROOT = Path(__file__).parents[2]


def test_the_table_is_what_apache_kafka_says_of_itself(kafka_classpath: str) -> None:
    """The program that generated the table prints the same table again."""
    program = ROOT / "tools" / "dump_kafka_configs" / "DumpKafkaConfigs.java"
    dumped = subprocess.run(["java", "-cp", kafka_classpath, str(program)], capture_output=True, text=True, check=True)
    assert dumped.stdout == (ROOT / "src" / "klamm" / "config" / "kafka_configs.json").read_text(encoding="utf-8")
