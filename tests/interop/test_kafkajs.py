"""Tests that kafkajs works with klamm as with Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.interop.client_process import ClientProcess
from tests.interop.group_scenarios import GroupScenarios
from tests.interop.record_scenarios import RecordScenarios

pytestmark = pytest.mark.node


@pytest.fixture
def new_client(new_node_client: Callable[[], ClientProcess]) -> Callable[[], ClientProcess]:
    """Returns a function that starts a process with kafkajs."""
    return new_node_client


class TestKafkajsRecords(RecordScenarios):
    """Scenarios of writing and reading records."""

    keeps_null_headers = False


class TestKafkajsGroups(GroupScenarios):
    """Scenarios of consumer groups."""
