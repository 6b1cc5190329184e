"""Tests of the check that ends each scenario of churn."""

from __future__ import annotations

from collections.abc import Callable

from tests.interop.churn_life import Life
from tests.interop.client_process import ClientProcess

SETTINGS = {"heartbeat_interval_ms": "100", "partition_assignment_strategy": "range"}


def test_old_commits_of_members_that_leave_are_no_loss(
    bootstrap: str, new_python_client: Callable[[str], ClientProcess]
) -> None:
    """The check passes although each member commits offset 0 of its partitions when it leaves, because a member that
    joins last reads these records again."""
    clients: list[ClientProcess] = []

    def start() -> ClientProcess:
        clients.append(new_python_client("old_commits" if len(clients) < 2 else "confluent_kafka"))
        return clients[-1]

    life = Life(start, bootstrap, 6, SETTINGS)
    try:
        with life.watch, life.writing:
            members = life.start("one", "two")
            life.wait_until_shared_by(members)
            life.check_that_nothing_was_lost(members)
    finally:
        for client in clients:
            client.close()
