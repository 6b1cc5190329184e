"""The metrics of the coordinators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.broker.services.metrics.metrics import Figure
from klamm.protocol.internal_topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    from klamm.runtime.group_coordinator import GroupCoordinator
    from klamm.runtime.transaction_coordinator import TransactionCoordinator

__all__ = ["coordinator_figures"]


def coordinator_figures(groups: GroupCoordinator, transactions: TransactionCoordinator) -> list[Figure]:
    """Returns the number of unreadable records in the coordinators' topics. Each has a line in the broker's log."""
    values = [
        ((OFFSETS_TOPIC,), float(groups.skipped_records)),
        ((TRANSACTIONS_TOPIC,), float(transactions.skipped_records)),
    ]
    return [
        Figure(
            "klamm_coordinator_skipped_records",
            "Records that could not be read, and were skipped, when a coordinator loaded the partitions it has now.",
            ("topic",),
            values,
        )
    ]
