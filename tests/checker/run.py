"""One run: starts a broker, or several, and clients, injects faults, and checks the history."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TypeAlias

from tests.checker.anomaly import Anomaly
from tests.checker.broker_faults import BrokerFaults
from tests.checker.check import check
from tests.checker.cluster_brokers import CONFIG as CONFIG_OF_CLUSTER
from tests.checker.cluster_brokers import ClusterBrokers
from tests.checker.cluster_faults import ClusterFaults
from tests.checker.facts import Facts
from tests.checker.history import Recorder, RunEnded, read_history
from tests.checker.interruption import Interrupted, Interruption
from tests.checker.nemesis import Nemesis
from tests.checker.power import Power
from tests.checker.worker_brokers import WorkerBrokers
from tests.checker.worker_faults import WorkerFaults
from tests.checker.workload.roles import Cast
from tests.checker.workload.workload import Workload
from tests.interop.broker_process import BrokerProcess

__all__ = ["HISTORY", "Report", "run"]

_Process: TypeAlias = BrokerProcess | WorkerBrokers | ClusterBrokers

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
_CONFIG_OF_WORKERS = {
    # So that each worker has coordinators.
    "offsets.topic.num.partitions": "6",
    "transaction.state.log.num.partitions": "6",
    # How long workers wait for each other.
    "request.timeout.ms": "2000",
}


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a run. Its counts show whether the run could have found an anomaly."""

    facts: Facts
    anomalies: list[Anomaly]
    faults: dict[str, int]
    crashes: int
    """Number of clients that crashed or hung."""
    broker_log: str
    slowness: float
    """The machine's slowness at the start of the run, as a multiple of an idle machine's time."""
    was_interrupted: bool
    """Whether a signal came."""

    def summary(self) -> str:
        """Returns the counts in one line. If the run ended early, a line with the reason comes first."""
        facts = self.facts
        committed = sum(each.is_committed for each in facts.transactions.values())
        aborted = sum(each.is_aborted for each in facts.transactions.values())
        unknown = len(facts.transactions) - committed - aborted
        acknowledged = sum(each.outcome == "ok" for each in facts.records.values())
        faults = ", ".join(f"{count} x {name}" for name, count in sorted(self.faults.items()))
        ended = f"{self.crashes} clients crashed or hung"
        early = "" if facts.is_whole else f"the run ended early, {_end_of(facts)}\n"
        return (
            f"{early}{len(facts.entries)} events; {len(facts.records)} records sent, {acknowledged} acknowledged;"
            f" {len(facts.transactions)} transactions, {committed} committed, {aborted} aborted, {unknown} unknown;"
            f" {len(facts.commits)} commits of offsets; faults: {faults or 'none'}; {ended}"
        )


def _end_of(facts: Facts) -> str:
    last_ms = facts.entries[-1].time_ms if facts.entries else 0
    return f"after {last_ms / 1000:.1f} s: {facts.end_reason}. What was done up to then is judged, as far as it goes."


def run(
    folder: Path,
    *,
    seconds: float,
    seed: int,
    config: Mapping[str, str] | None = None,
    faults: Sequence[str] | None = None,
    has_power_cuts: bool = False,
    workers: int = 1,
    etcd_members: int = 0,
    program: Sequence[str] = (),
    cast: Cast | None = None,
) -> Report:
    """Runs a broker, several workers, or a cluster, in `folder` with clients for `seconds`, injects faults, and checks
    the history, which stays in `folder`.

    With `etcd_members`, a cluster of three brokers runs with an etcd of so many members. `program` is the command line
    that starts klamm in a cluster.

    `faults` are injected once each, in this order, spread over the time. Without `faults`, a random fault comes every
    few seconds. With `has_power_cuts` each kill takes unsynced data. The seed decides what clients and faults do, but
    not when processes run: two runs with the same seed differ. A run can end early because of Ctrl-C, SIGTERM or an
    error. Its history up to that point is then checked, and contains the reason. `cast` has the clients, by default all
    but those in Java.
    """
    folder.mkdir(parents=True, exist_ok=True)
    history = folder / HISTORY
    history.unlink(missing_ok=True)
    recorder = Recorder(history)
    random = Random(f"{seed} nemesis")
    settings = _CONFIG | (_CONFIG_OF_WORKERS if workers > 1 else {})
    settings |= (CONFIG_OF_CLUSTER if etcd_members else {}) | dict(config or {})
    interruption = Interruption()
    with ExitStack() as stack:
        stack.enter_context(interruption.expected())
        process: _Process
        if etcd_members:
            assert not has_power_cuts, "one disk loses its power, and brokers have several"
            cluster = ClusterBrokers(folder, settings, etcd_members, program=program)
            process, faults_by_name = cluster, ClusterFaults(cluster, random).by_name()
            stack.callback(cluster.close)
        elif workers > 1:
            assert not has_power_cuts, "one disk loses its power, and workers have several"
            several = WorkerBrokers(folder, settings, workers)
            process, faults_by_name = several, WorkerFaults(several, random).by_name()
            stack.callback(several.close)
        else:
            power = Power(folder / "disk", folder / "data", Random(f"{seed} power")) if has_power_cuts else None
            process = BrokerProcess(folder, settings, None if power is None else power.environment)
            may_lose = settings.get("klamm.fsync") != "ack"
            faults_by_name = BrokerFaults(process, recorder, random, power=power, may_lose=may_lose).by_name()
        workload = Workload(
            folder,
            history,
            recorder,
            interruption,
            process.bootstrap_servers,
            seed=seed,
            cast=cast or Cast.whole(),
            replication_factor=3 if etcd_members else 1,
        )
        killing = {"kill a client": lambda: workload.kill_client(random)}
        nemesis = Nemesis({**faults_by_name, **killing}, recorder, random)
        reason = ""
        try:
            workload.start()
            _strike(workload, nemesis, interruption, seconds=seconds, faults=faults, random=random)
            workload.finish()
        except Interrupted as signaled:
            reason = str(signaled)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
        finally:
            workload.close()
            stopped = _stop(process)
            reason = reason or stopped
            recorder.record(RunEnded("run", reason))
            recorder.close()
        broker_log = process.log()
    facts, anomalies = check(read_history(history))
    return Report(
        facts,
        anomalies,
        nemesis.done,
        workload.crashes,
        broker_log,
        workload.slowness,
        was_interrupted=interruption.has_come,
    )


def _stop(process: _Process) -> str:
    """Returns an empty text, or why the brokers did not stop."""
    try:
        if process.is_running:
            process.stop()
    except (subprocess.TimeoutExpired, RuntimeError) as error:
        return f"the broker did not stop: {error}"
    return ""


def _strike(
    workload: Workload,
    nemesis: Nemesis,
    interruption: Interruption,
    *,
    seconds: float,
    faults: Sequence[str] | None,
    random: Random,
) -> None:
    deadline = time.monotonic() + seconds
    planned = list(faults or ())
    # On a busy machine a fault may take longer than its share of the time.
    while (left := max(0.0, deadline - time.monotonic())) or planned:
        pause = left / (len(planned) + 1) if faults is not None else random.uniform(1, 10)
        interruption.sleep(min(left, pause))
        workload.watch()
        if planned:
            nemesis.strike(planned.pop(0))
        elif faults is None:
            nemesis.strike()
