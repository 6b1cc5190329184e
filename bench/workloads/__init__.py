"""The rows, in the order in which the tables show them."""

from __future__ import annotations

from bench.workload import Workload
from bench.workloads import (
    acknowledgement_latency,
    churn_consumer,
    churn_cooperative,
    churn_eager,
    commit_bytes,
    compaction,
    consume_1_kilobyte,
    consume_100_bytes,
    end_to_end_latency,
    fsync_modes,
    group_first_record,
    loading,
    loop_steps,
    many_groups,
    memory,
    one_record_requests,
    produce_1_kilobyte,
    produce_100_bytes,
    rebalance_consumer,
    rebalance_cooperative,
    rebalance_eager,
    restart,
    start,
)

__all__ = ["WORKLOADS"]

WORKLOADS: tuple[Workload, ...] = (
    produce_100_bytes.WORKLOAD,
    produce_1_kilobyte.WORKLOAD,
    one_record_requests.WORKLOAD,
    fsync_modes.WORKLOAD,
    acknowledgement_latency.WORKLOAD,
    consume_100_bytes.WORKLOAD,
    consume_1_kilobyte.WORKLOAD,
    end_to_end_latency.WORKLOAD,
    group_first_record.WORKLOAD,
    rebalance_eager.WORKLOAD,
    rebalance_cooperative.WORKLOAD,
    rebalance_consumer.WORKLOAD,
    churn_eager.WORKLOAD,
    churn_cooperative.WORKLOAD,
    churn_consumer.WORKLOAD,
    commit_bytes.STOCK,
    commit_bytes.LZ4,
    compaction.WORKLOAD,
    loading.WORKLOAD,
    many_groups.CLASSIC,
    many_groups.CONSUMER,
    loop_steps.WORKLOAD,
    start.WORKLOAD,
    restart.WORKLOAD,
    memory.WORKLOAD,
)
