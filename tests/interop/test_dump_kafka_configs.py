"""The table of Kafka's keys is what Apache Kafka says of itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.interop.conftest import toolchain_is_missing
from tests.support.kafka_broker import KafkaUnavailable, kafka_classpath

pytestmark = pytest.mark.java

ROOT = Path(__file__).parents[2]


def test_the_table_is_what_apache_kafka_says_of_itself() -> None:
    """The program that wrote the table writes the same again."""
    try:
        classpath = kafka_classpath()
    except KafkaUnavailable as error:
        toolchain_is_missing("java", str(error))
    program = ROOT / "tools" / "dump_kafka_configs" / "DumpKafkaConfigs.java"
    dumped = subprocess.run(["java", "-cp", classpath, str(program)], capture_output=True, text=True, check=True)
    assert dumped.stdout == (ROOT / "src" / "klamm" / "config" / "kafka_configs.json").read_text(encoding="utf-8")
