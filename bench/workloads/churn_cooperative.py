"""Members that come and go, cooperative protocol."""

from __future__ import annotations

from bench.workloads.rebalances import churn_workload

__all__ = ["WORKLOAD"]

WORKLOAD = churn_workload("cooperative")
