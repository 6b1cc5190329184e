"""Three brokers of klamm answer the scripts as three brokers of Apache Kafka did, except for explained differences.

tests/interop/test_cluster_against_kafka.py compares the records with Apache Kafka.
"""

from __future__ import annotations

import pytest
from tests.differential.clusters import klamm
from tests.differential.recorded import describe_differences
from tests.differential.script import SCRIPTS, load_scripts, play

load_scripts()


@pytest.mark.parametrize("name", list(SCRIPTS))
def test_klamm_answers_as_recorded(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """Every answer in every step is the recorded one, and no broker logs an exception."""
    with klamm() as brokers:
        steps = play(name, brokers)
    different = describe_differences(name, steps, is_kafka=False)
    if different:
        pytest.fail(different, pytrace=False)
    assert [record.getMessage() for record in caplog.records if record.exc_info is not None] == []
