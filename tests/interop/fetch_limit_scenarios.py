"""Tests that every consumer must pass with klamm when its fetch limits are smaller than the batches.

A suite inherits these tests and defines the fixture `new_client`.
"""

from __future__ import annotations

from typing import ClassVar

import pytest
from tests.interop.client_process import ClientProcess

__all__ = ["LARGE", "LIMIT_BYTES", "SMALL", "FetchLimitScenarios", "write_batches"]

LIMIT_BYTES = 70_000
"""The broker may send 64 KiB or more directly from the file; it reads smaller records into memory."""
LARGE = "large " * 20_000
SMALL = "small"


def write_batches(client: ClientProcess, topic: str) -> list[str]:
    """Writes batches of one record each to partition 0, in which small batches precede batches beyond the limit."""
    values = [SMALL, LARGE, SMALL, SMALL, LARGE, LARGE, SMALL]
    for value in values:
        client.call("produce", topic=topic, records=[{"partition": 0, "value": value}])
    return values


class FetchLimitScenarios:
    """A consumer with any fetch limit reads all records."""

    of_a_partition: ClassVar[dict[str, str]] = {"max.partition.fetch.bytes": str(LIMIT_BYTES)}
    """Settings that limit the bytes of one partition."""
    of_a_response: ClassVar[dict[str, str]] = {"fetch.max.bytes": str(LIMIT_BYTES)}
    """Settings that limit the bytes of one response."""

    @pytest.mark.parametrize("limit", ["of_a_partition", "of_a_response"])
    def test_a_small_batch_before_one_beyond_the_limit_is_read(
        self, client: ClientProcess, topic: str, limit: str
    ) -> None:
        """A consumer reads every record when small batches precede batches that are larger than the fetch limit."""
        values = write_batches(client, topic)
        arrived = client.call("read", topic=topic, config=getattr(self, limit), **{"from": "earliest"})
        assert [record["value"] for record in arrived] == values
