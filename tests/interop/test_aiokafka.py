"""Tests that aiokafka works with klamm as with Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.interop.client_process import ClientProcess
from tests.interop.group_scenarios import GroupScenarios
from tests.interop.record_scenarios import RecordScenarios


@pytest.fixture
def new_client(new_python_client: Callable[[str], ClientProcess]) -> Callable[[], ClientProcess]:
    """Returns a function that starts a process with aiokafka."""
    return lambda: new_python_client("aiokafka")


class TestAiokafkaRecords(RecordScenarios):
    """Scenarios of writing and reading records."""


class TestAiokafkaGroups(GroupScenarios):
    """Scenarios of consumer groups."""
