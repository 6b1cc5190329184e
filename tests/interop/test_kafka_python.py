"""Tests that kafka-python works with klamm as with Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import pytest
from tests.interop.client_process import ClientProcess
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


# When poll() ends just before the answer to SyncGroup, kafka-python 3.0.12 drops that answer: the next poll finds its
# join done (`self._join_task.is_done`) and joins again. A member was seen without partitions for 30 s after that, and
# each scenario can meet it. See `join_group_async`, https://github.com/dpkp/kafka-python/blob/3.0.12/kafka/coordinator/base.py
# Four other clients run the same scenarios without reruns.
@pytest.mark.flaky(reruns=2)
class TestKafkaPythonGroups(GroupScenarios):
    """Scenarios of consumer groups."""
