"""One run: a broker, its clients, and what is done to it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.checker.anomaly import Anomaly
from tests.checker.check import check
from tests.checker.facts import Facts
from tests.checker.history import Recorder, read_history
from tests.checker.nemesis import Nemesis
from tests.checker.workload.workload import Workload
from tests.interop.broker_process import BrokerProcess

__all__ = ["HISTORY", "Report", "run"]

HISTORY = "history.jsonl"
_CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.session.timeout.ms": "4000",
    "group.consumer.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    # Several segments, so that indexes and snapshots are rolled, kept and found again.
    "log.segment.bytes": "1048576",
}


@dataclass(frozen=True, slots=True)
class Report:
    """What a run found. Its counts say whether it could have found anything."""

    facts: Facts
    anomalies: list[Anomaly]
    faults: dict[str, int]
    crashes: int
    """Clients that died of themselves, or hung."""
    broker_log: str

    def summary(self) -> str:
        """Counts, in one line."""
        facts = self.facts
        committed = sum(each.is_committed for each in facts.transactions.values())
        aborted = sum(each.is_aborted for each in facts.transactions.values())
        unknown = len(facts.transactions) - committed - aborted
        acknowledged = sum(each.outcome == "ok" for each in facts.records.values())
        faults = ", ".join(f"{count} x {name}" for name, count in sorted(self.faults.items()))
        ended = f"{self.crashes} clients crashed or hung"
        return (
            f"{len(facts.entries)} events; {len(facts.records)} records sent, {acknowledged} acknowledged;"
            f" {len(facts.transactions)} transactions, {committed} committed, {aborted} aborted, {unknown} unknown;"
            f" {len(facts.commits)} commits of offsets; faults: {faults or 'none'}; {ended}"
        )


def run(
    folder: Path,
    *,
    seconds: float,
    seed: int,
    config: Mapping[str, str] | None = None,
    faults: Sequence[str] | None = None,
) -> Report:
    """Runs a broker in `folder` with clients for so long, strikes it, and checks the history, which is kept there.

    `faults` are done once each, in this order, spread over the time; without them it is struck every few seconds.
    The seed decides what clients and faults do, not when processes run: the same
    one is not the same run. Raises RuntimeError when the broker does not come back.
    """
    folder.mkdir(parents=True, exist_ok=True)
    history = folder / HISTORY
    history.unlink(missing_ok=True)
    recorder = Recorder(history)
    random = Random(f"{seed} nemesis")
    process = BrokerProcess(folder, _CONFIG | dict(config or {}))
    workload = Workload(folder, history, recorder, process.bootstrap_servers, seed)
    nemesis = Nemesis(process, workload, recorder, random)
    try:
        workload.start()
        deadline = time.monotonic() + seconds
        planned = list(faults or ())
        while (left := deadline - time.monotonic()) > 0:
            pause = left / (len(planned) + 1) if faults is not None else random.uniform(1, 10)
            time.sleep(min(left, pause))
            workload.watch()
            if planned:
                nemesis.strike(planned.pop(0))
            elif faults is None:
                nemesis.strike()
        workload.finish()
    finally:
        workload.close()
        recorder.close()
        if process.is_running:
            process.stop()
    facts, anomalies = check(read_history(history))
    return Report(facts, anomalies, nemesis.done, workload.crashes, process.log())
