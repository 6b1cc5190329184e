"""Runs a row: every peer in turn, round after round, so that a noisy minute affects all of them."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from confluent_kafka import KafkaException

from bench.peers import Peer, PeerUnavailable, RunningCluster, RunningPeer
from bench.workload import ClusterWorkload, LifeWorkload, Load, SteadyWorkload, Workload

__all__ = ["Published", "RowResult", "Runner"]

_QUICK_ROUNDS = 2
_FAILURES = (KafkaException, PeerUnavailable, subprocess.SubprocessError, TimeoutError, OSError)


@dataclass(frozen=True)
class Published:
    """The published values of a figure whose rounds are kept with fewer digits than they were measured with."""

    medians: Mapping[str, float]
    ratio: float | None
    verdict: str


@dataclass
class RowResult:
    """The result of a row: for each peer the figures of each round, or the reason why there are none."""

    rounds: dict[str, list[Mapping[str, float]]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    published: dict[str, Published] = field(default_factory=dict)
    """Replaces the median, the ratio and the verdict of a figure; empty for rows that this run has measured."""


def _reason(error: BaseException) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        return str(error.stderr or error).strip().splitlines()[-1]
    if isinstance(error, subprocess.TimeoutExpired):
        return f"not done after {error.timeout:g} s"
    return (str(error).splitlines() or [type(error).__name__])[0]


@dataclass(frozen=True)
class Runner:
    """Runs rows on `peers` with `load`; brokers keep their data under `work_folder` while they run."""

    peers: Mapping[str, Peer]
    load: Load
    quick: bool
    work_folder: Path
    say: Callable[[str], None]

    def run_row(self, workload: Workload) -> RowResult:
        """Runs all rounds of a row on all peers. A peer that fails is left out from then on, with the reason."""
        result = RowResult(reasons={name: why for name, why in workload.without.items() if name in self.peers})
        names = [name for name in self.peers if name not in result.reasons]
        # The folder's name shows which row a profile belongs to.
        folder = Path(tempfile.mkdtemp(dir=self.work_folder, prefix=f"{workload.name}-"))
        try:
            if isinstance(workload, LifeWorkload):
                self._run_life(workload, names, folder, result)
            else:
                self._run_steady(workload, names, folder, result)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return result

    def _rounds(self, workload: Workload) -> int:
        return min(workload.rounds, _QUICK_ROUNDS) if self.quick else workload.rounds

    def _run_steady(
        self, workload: SteadyWorkload | ClusterWorkload, names: Sequence[str], folder: Path, result: RowResult
    ) -> None:
        running: dict[str, RunningPeer | RunningCluster] = {}
        measures: dict[str, Callable[[int], Mapping[str, float]]] = {}
        try:
            for name in names:
                (folder / name).mkdir()
                try:
                    if isinstance(workload, ClusterWorkload):
                        cluster = self.peers[name].start_cluster(folder / name, workload.config)
                        running[name], measures[name] = cluster, partial(workload.measure, cluster, self.load)
                        workload.prepare(cluster, self.load)
                    else:
                        broker = self.peers[name].start(folder / name, workload.config)
                        running[name], measures[name] = broker, partial(workload.measure, broker, self.load)
                        workload.prepare(broker, self.load)
                except _FAILURES as error:
                    self._leave_out(name, error, result)
            for number in range(self._rounds(workload)):
                for name, peer in running.items():
                    if name in result.reasons:
                        continue
                    used = peer.cpu_seconds()
                    try:
                        figures = dict(measures[name](number))
                    except _FAILURES as error:
                        self._leave_out(name, error, result)
                        continue
                    figures["broker_cpu_seconds"] = peer.cpu_seconds() - used
                    self._record(name, figures, result)
        finally:
            for peer in running.values():
                if isinstance(workload, SteadyWorkload) and isinstance(peer, RunningPeer):
                    workload.finish(peer)
                peer.stop()

    def _run_life(self, workload: LifeWorkload, names: Sequence[str], folder: Path, result: RowResult) -> None:
        for number in range(self._rounds(workload)):
            for name in names:
                if name in result.reasons:
                    continue
                own = folder / f"{name}-{number}"
                own.mkdir()
                try:
                    self._record(name, workload.measure(self.peers[name], own, self.load), result)
                except _FAILURES as error:
                    self._leave_out(name, error, result)
                finally:
                    shutil.rmtree(own, ignore_errors=True)

    def _record(self, name: str, figures: Mapping[str, float], result: RowResult) -> None:
        result.rounds.setdefault(name, []).append(figures)
        shown = "  ".join(f"{key} {value:,.3f}" for key, value in figures.items())
        self.say(f"    {self.peers[name].name:24} {shown}")

    def _leave_out(self, name: str, error: BaseException, result: RowResult) -> None:
        result.reasons[name] = _reason(error)
        self.say(f"    {self.peers[name].name:24} {result.reasons[name]}")
