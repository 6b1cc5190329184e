"""Short runs of the checker against a real broker; `make faults` has long ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from tests.checker.history import Origins, Poll, Sent, read_history
from tests.checker.run import HISTORY, Report, run
from tests.interop.broker_process import BrokerProcess
from tests.support import faulty_disk

_ROOT = Path(__file__).parents[2]
_GROUPS = {"eager", "cooperative", "consumer", "processors", "klamm"}


def _assert_could_have_found_something(report: Report) -> None:
    """Asserts that all kinds of clients and outcomes occurred in the run."""
    facts = report.facts
    assert any(record.outcome == "ok" and record.transaction is None for record in facts.records.values())
    assert any(record.source is not None for record in facts.records.values())
    assert any(transaction.is_committed for transaction in facts.transactions.values())
    assert any(transaction.is_aborted for transaction in facts.transactions.values())
    assert {commit.group for commit in facts.commits} == _GROUPS
    assert {fetch.group for fetch in facts.fetches} == _GROUPS
    readers = {
        (entry.event.process.partition(".")[0], entry.event.isolation)
        for entry in facts.entries
        if isinstance(entry.event, Poll)
    }
    assert {("klamm-committed", "read_committed"), ("klamm-uncommitted", "read_uncommitted")} <= readers
    assert any(isinstance(entry.event, Origins) for entry in facts.entries)
    assert all(facts.writer(each.partition, each.offset) for each in facts.records.values() if each.offset is not None)


@pytest.mark.timeout(600)
def test_clients_of_a_broker_that_is_killed_and_paused(tmp_path: Path) -> None:
    """I4, I10 to I12, I16 to I18, I26: clients see no anomaly while the broker is killed and paused."""
    faults = ("kill", "pause", "kill a client")
    report = run(tmp_path, seconds=12, seed=1, faults=faults)
    assert report.facts.is_whole, report.facts.end_reason
    assert report.anomalies == []
    assert "Traceback" not in report.broker_log, report.broker_log[-4000:]
    assert report.faults == dict.fromkeys(faults, 1)
    _assert_could_have_found_something(report)


@pytest.mark.timeout(600)
def test_clients_of_a_broker_that_loses_its_power(tmp_path: Path) -> None:
    """I8: with klamm.fsync=ack a power cut takes no acknowledged record, and all checks hold as after a kill."""
    if (reason := faulty_disk.why_not()) is not None:
        pytest.skip(reason)
    report = run(tmp_path, seconds=10, seed=2, faults=("kill",), config={"klamm.fsync": "ack"}, has_power_cuts=True)
    assert report.facts.is_whole, report.facts.end_reason
    assert not report.facts.may_lose
    assert report.anomalies == []
    assert "Traceback" not in report.broker_log, report.broker_log[-4000:]
    _assert_could_have_found_something(report)


@pytest.mark.timeout(600)
def test_a_run_that_is_interrupted(tmp_path: Path) -> None:
    """An interrupted run reports the reason and the time, checks its history so far, and leaves no process behind."""
    command = [sys.executable, "-m", "tests.checker", "--seconds", "300", "--seed", "3", "--folder", str(tmp_path)]
    checker = subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True)
    history = tmp_path / HISTORY
    try:
        _wait_for_answers(history)
        checker.send_signal(signal.SIGINT)
        time.sleep(0.05)
        checker.send_signal(signal.SIGTERM)  # a second signal while the checker stops its clients has no effect
        told, _ = checker.communicate(timeout=300)
        assert checker.returncode == 2, told
        assert "the run ended early, after " in told
        assert "it was interrupted" in told
        assert "records sent" in told
        with pytest.raises(ProcessLookupError):
            os.killpg(checker.pid, 0)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(checker.pid, signal.SIGKILL)
    again = subprocess.run(
        [*command[:3], "--history", str(history)], cwd=_ROOT, capture_output=True, text=True, check=False
    )
    assert again.returncode == 2
    assert "the run ended early: it was interrupted" in again.stdout


@pytest.mark.timeout(600)
def test_a_run_whose_broker_does_not_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the broker does not come back, the run ends with the reason, and the history up to that point is checked."""
    kill = BrokerProcess.kill

    def kill_and_break_the_configuration(process: BrokerProcess) -> None:
        kill(process)
        (tmp_path / "server.properties").write_text("log.segment.bytes=many\n", encoding="utf-8")

    monkeypatch.setattr(BrokerProcess, "kill", kill_and_break_the_configuration)
    report = run(tmp_path, seconds=10, seed=4, faults=("kill",))
    assert not report.facts.is_whole
    assert "klamm serve did not become ready" in report.facts.end_reason
    assert "log.segment.bytes" in report.summary()
    assert report.anomalies == []
    assert report.facts.records


def _wait_for_answers(history: Path) -> None:
    while not history.exists() or not any(isinstance(entry.event, Sent) for entry in read_history(history)):
        time.sleep(0.2)
