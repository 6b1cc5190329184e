"""A short run against a real broker; `make faults` has a long one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.checker.run import run


@pytest.mark.timeout(600)
def test_clients_of_a_broker_that_is_killed_and_paused(tmp_path: Path) -> None:
    """I4, I10 to I12, I16 to I18, I26: nothing that should not happen, as the clients saw it."""
    faults = ("kill", "pause", "kill a client")
    report = run(tmp_path, seconds=12, seed=1, faults=faults)
    assert report.anomalies == []
    assert "Traceback" not in report.broker_log, report.broker_log[-4000:]
    assert report.faults == dict.fromkeys(faults, 1)
    # It could have found something: all of these were there to be checked.
    facts = report.facts
    assert any(record.outcome == "ok" and record.transaction is None for record in facts.records.values())
    assert any(record.source is not None for record in facts.records.values())
    assert any(transaction.is_committed for transaction in facts.transactions.values())
    assert any(transaction.is_aborted for transaction in facts.transactions.values())
    assert {commit.group for commit in facts.commits} == {"eager", "cooperative", "consumer", "processors"}
    assert {fetch.group for fetch in facts.fetches} == {"eager", "cooperative", "consumer", "processors"}
