"""Tests requests with acks=all that wait until their batches are committed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from heapq import heapify
from pathlib import Path
from typing import Any

import pytest
from tests.support.event_loop import in_loop
from tests.support.log_folder import LogFolder
from tests.unit.broker.partitions.test_partition import Led

from klamm.broker.partitions import partition as partition_module
from klamm.broker.partitions.delayed_produce import DelayedProduce, Uncommitted
from klamm.protocol.errors import ErrorCode
from klamm.protocol.produce import ProducePartitionResponse, ProduceTopicResponse
from klamm.protocol.types import Offset

REQUESTS = 1000
LONG_MS = 3_600_000


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[LogFolder]:
    made = LogFolder(tmp_path)
    yield made
    made.close()


def wait(led: Led, offset: int, timeout_ms: int) -> asyncio.Future[list[ProduceTopicResponse]]:
    """Lets a request wait for the batch at the offset."""
    answers = [ProduceTopicResponse("orders", None, [ProducePartitionResponse(0, 0, base_offset=offset)])]
    uncommitted = [Uncommitted(0, 0, led.partition, Offset(offset))]
    request: DelayedProduce[list[ProduceTopicResponse]] = DelayedProduce(answers, uncommitted, lambda final: final)
    return request.wait(timeout_ms)


def code_of(request: asyncio.Future[list[ProduceTopicResponse]]) -> int:
    return request.result()[0].partitions[0].error_code


@in_loop
async def test_requests_that_time_out_together_take_little_time(
    folder: LogFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a replica hangs, the requests of thousands of producers may time out at the same time. Each of them does
    little work, and none of those that go on waiting is forgotten."""
    rebuilt: list[int] = []

    def count(heap: list[Any]) -> None:
        rebuilt.append(len(heap))
        heapify(heap)

    monkeypatch.setattr(partition_module, "heapify", count)
    led = Led(folder, 2)
    patient = [wait(led, 0, LONG_MS), wait(led, 1, LONG_MS)]
    requests = [wait(led, number % 2, 0) for number in range(REQUESTS)]
    await asyncio.gather(*requests)
    await asyncio.sleep(0)
    assert {code_of(request) for request in requests} == {ErrorCode.REQUEST_TIMED_OUT}
    assert sum(rebuilt) <= 4 * REQUESTS
    led.fetch(1)
    assert [request.done() for request in patient] == [True, False]
    led.fetch(2)
    assert [code_of(request) for request in patient] == [ErrorCode.NONE] * 2
