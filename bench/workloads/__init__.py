"""The rows, in the order in which the tables show them."""

from __future__ import annotations

from bench.workload import Workload
from bench.workloads import (
    acknowledgement_latency,
    consume_1_kilobyte,
    consume_100_bytes,
    end_to_end_latency,
    group_first_record,
    memory,
    one_record_requests,
    produce_1_kilobyte,
    produce_100_bytes,
    start,
)

__all__ = ["WORKLOADS"]

WORKLOADS: tuple[Workload, ...] = (
    produce_100_bytes.WORKLOAD,
    produce_1_kilobyte.WORKLOAD,
    one_record_requests.WORKLOAD,
    acknowledgement_latency.WORKLOAD,
    consume_100_bytes.WORKLOAD,
    consume_1_kilobyte.WORKLOAD,
    end_to_end_latency.WORKLOAD,
    group_first_record.WORKLOAD,
    start.WORKLOAD,
    memory.WORKLOAD,
)
