"""A short run against a real broker; `make faults` has a long one."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.checker.run import run
from tests.interop.broker_process import BrokerProcess


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


def _cut(process: BrokerProcess) -> None:
    """What no disk should do: the end of a partition is gone."""
    newest = sorted((process.data_directory / "records-0").glob("*.log"))[-1]
    deadline = time.monotonic() + 60
    while newest.stat().st_size < 60_000:
        assert time.monotonic() < deadline, "nothing is written"
        time.sleep(0.1)
    process.kill()
    with newest.open("r+b") as file:
        file.truncate(newest.stat().st_size * 2 // 3)
    process.start()


@pytest.mark.timeout(600)
def test_a_broker_that_loses_records_is_found_out(tmp_path: Path) -> None:
    """A third of a partition vanishes between a kill and the start: clients have seen what is gone, and see other
    records in its place."""
    report = run(tmp_path, seconds=6, seed=2, faults=["cut"], more_faults={"cut": _cut})
    found = {anomaly.kind for anomaly in report.anomalies}
    # Which of them depends on who had read what is gone, and on what was written in its place.
    assert found & {"lost-write", "unseen", "inconsistent-offsets"}
