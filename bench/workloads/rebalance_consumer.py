"""A newcomer in a group of fifty, consumer protocol."""

from __future__ import annotations

from bench.workloads.rebalances import rebalance_workload

__all__ = ["WORKLOAD"]

WORKLOAD = rebalance_workload("consumer")
