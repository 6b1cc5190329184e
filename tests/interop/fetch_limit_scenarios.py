"""What every consumer must find true of klamm whose limits are smaller than the batches.

A suite inherits these tests and defines the fixture `new_client`.
"""

from __future__ import annotations

from typing import ClassVar

import pytest
from tests.interop.client_process import ClientProcess

__all__ = ["LARGE", "LIMIT_BYTES", "SMALL", "FetchLimitScenarios", "write_batches"]

LIMIT_BYTES = 70_000
"""From 64 KiB on, the broker may send records from the file; below, it reads them."""
LARGE = "large " * 20_000
SMALL = "small"


def write_batches(client: ClientProcess, topic: str) -> list[str]:
    """Writes batches of one record each to partition 0: small ones, each followed by one beyond the limit."""
    values = [SMALL, LARGE, SMALL, SMALL, LARGE, LARGE, SMALL]
    for value in values:
        client.call("produce", topic=topic, records=[{"partition": 0, "value": value}])
    return values


class FetchLimitScenarios:
    """A consumer reads on, whatever its limits are."""

    of_a_partition: ClassVar[dict[str, str]] = {"max.partition.fetch.bytes": str(LIMIT_BYTES)}
    """Settings that limit what is read from one partition."""
    of_a_response: ClassVar[dict[str, str]] = {"fetch.max.bytes": str(LIMIT_BYTES)}
    """Settings that limit what is read in one response."""

    @pytest.mark.parametrize("limit", ["of_a_partition", "of_a_response"])
    def test_a_small_batch_before_one_beyond_the_limit_is_read(
        self, client: ClientProcess, topic: str, limit: str
    ) -> None:
        """The small batch comes alone. The next response contains the large one, although it is beyond the limit."""
        values = write_batches(client, topic)
        arrived = client.call("read", topic=topic, config=getattr(self, limit), **{"from": "earliest"})
        assert [record["value"] for record in arrived] == values
