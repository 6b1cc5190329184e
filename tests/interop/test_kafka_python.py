"""Tests that kafka-python works with klamm as with Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import pytest
from tests.interop.client_process import ClientProcess
from tests.interop.dropped_joins import kafka_python_may_drop_a_join
from tests.interop.group_scenarios import GroupScenarios
from tests.interop.record_scenarios import RecordScenarios


@pytest.fixture
def new_client(new_python_client: Callable[[str], ClientProcess]) -> Callable[[], ClientProcess]:
    """Returns a function that starts a process with kafka-python."""
    return lambda: new_python_client("kafka_python")


class TestKafkaPythonRecords(RecordScenarios):
    """Scenarios of writing and reading records."""

    keeps_null_headers = False
    # Each codec of kafka-python needs a separate package: kafka-python[lz4,snappy,zstd].
    lacks_codecs = frozenset(
        codec
        for codec, module in {"lz4": "lz4", "snappy": "snappy", "zstd": "zstandard"}.items()
        if find_spec(module) is None
    )


@kafka_python_may_drop_a_join
class TestKafkaPythonGroups(GroupScenarios):
    """Scenarios of consumer groups."""
