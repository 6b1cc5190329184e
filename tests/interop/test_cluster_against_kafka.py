"""The recorded answers of scripts are those of three nodes of Apache Kafka.

tests/differential compares klamm with the same records. `python -m tests.differential.record NAME` records a script
again.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.differential.clusters import Brokers, apache_kafka
from tests.differential.recorded import describe_differences
from tests.differential.script import SCRIPTS, load_scripts, play
from tests.support.kafka_broker import KafkaUnavailable
from tests.support.share_of_gate import share_of_gate
from tests.support.toolchains import toolchain_is_missing

pytestmark = pytest.mark.java
load_scripts()


@pytest.fixture(scope="module")
def brokers() -> Iterator[Brokers]:
    """Three nodes of Apache Kafka."""
    try:
        with apache_kafka() as running:
            yield running
    except KafkaUnavailable as error:
        toolchain_is_missing("java", str(error))


@pytest.mark.parametrize("name", share_of_gate(SCRIPTS, 6))
def test_apache_kafka_answers_as_recorded(brokers: Brokers, name: str) -> None:
    """Every answer in every step is the recorded one."""
    different = describe_differences(name, play(name, brokers), is_kafka=True)
    if different:
        pytest.fail(different, pytrace=False)
