"""klamm itself, started with `klamm serve`; with a profile folder, under the sampling profiler. Or the klamm of another
checkout, to compare a change with the code before it."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tests.support.etcd_programs import etcd_program
from tests.support.ports import free_port

from bench.peers.base import Peer, PeerUnavailable, RunningPeer
from bench.peers.cluster import CLUSTER_CONFIG, BrokerOfCluster, RunningCluster, write_settings

__all__ = ["Klamm"]

_ROOT = Path(__file__).parents[2]


class Klamm(Peer):
    """The klamm of this environment, or with `checkout` the code in that folder, run by this environment.

    Raises `PeerUnavailable` if the command line doesn't start, or if `checkout` has no klamm with a compiled record
    scanner: without that module a comparison would be unfair.
    """

    def __init__(self, profile_folder: Path | None = None, checkout: Path | None = None, *, workers: int = 1) -> None:
        self._program = Path(sys.executable).with_name("klamm")
        self._environment: dict[str, str] | None = None
        if checkout is not None:
            source = checkout.resolve() / "src"
            if not list(source.glob("klamm/protocol/_record_scanner.*.so")):
                raise PeerUnavailable(
                    f"{source} has no klamm with a compiled record scanner: run `make install` in {checkout}"
                )
            self._environment = {**os.environ, "PYTHONPATH": str(source)}
        tried = subprocess.run(
            [self._program, "serve", "--help"], capture_output=True, text=True, check=False, env=self._environment
        )
        if tried.returncode != 0:
            reason = (tried.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise PeerUnavailable(f"`klamm serve --help` failed: {reason}")
        self.name = f"klamm {importlib.metadata.version('klamm')}" if checkout is None else f"klamm of {checkout.name}"
        self._workers = workers
        if workers > 1:
            processors = len(os.sched_getaffinity(0))
            if workers > processors:
                raise PeerUnavailable(f"{workers} workers need {workers} processors, and there are {processors}")
            self.name += f", {workers} workers"
        self._profile_folder = profile_folder
        self._starts = 0

    def start(self, folder: Path, config: Mapping[str, str]) -> RunningPeer:
        script: list[str] = []
        if self._profile_folder is not None:
            self._starts += 1
            script = ["sample_profile.py", str(self._profile_folder / f"{folder.parent.name}-{self._starts}")]
        return self._start(folder, config, script)

    def start_with_steps_measured(self, folder: Path, config: Mapping[str, str], target: Path) -> RunningPeer:
        """Starts klamm so that the steps of its event loop are measured; `loop_steps.py` describes how to read them."""
        return self._start(folder, config, ["loop_steps.py", str(target)])

    def start_cluster(self, folder: Path, config: Mapping[str, str]) -> RunningCluster:
        """Starts etcd, as its package does, and three brokers."""
        try:
            program = etcd_program()
        except pytest.skip.Exception as missing:
            raise PeerUnavailable(str(missing)) from None
        client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        (folder / "etcd").mkdir(parents=True)
        etcd, _ = self.spawn(
            [
                str(program),
                f"--data-dir={folder / 'etcd' / 'data'}",
                f"--listen-client-urls={client}",
                f"--advertise-client-urls={client}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
            ],
            folder / "etcd",
        )
        settings = folder / "server.properties"
        write_settings(settings, {**CLUSTER_CONFIG, **config})
        brokers: list[BrokerOfCluster] = []
        try:
            address = client.removeprefix("http")
            brokers.extend(self._start_broker(broker_id, folder, settings, address) for broker_id in (1, 2, 3))
            return RunningCluster(brokers, [etcd])
        except BaseException:
            for broker in brokers:
                broker.kill()
            etcd.kill()
            raise

    def _start_broker(self, broker_id: int, folder: Path, settings: Path, etcd_address: str) -> BrokerOfCluster:
        port, own = free_port(), folder / f"broker-{broker_id}"
        own.mkdir()
        command = [str(self._program), "serve", "--config", str(settings), "--listen", f"127.0.0.1:{port}"]
        command += ["--data-dir", str(own / "data"), "--broker-id", str(broker_id)]
        command += ["--metadata", f"etcd{etcd_address}/bench"]
        return BrokerOfCluster(broker_id, port, own / "data", lambda: self.spawn(command, own, self._environment)[0])

    def _start(self, folder: Path, config: Mapping[str, str], script: Sequence[str]) -> RunningPeer:
        """Starts klamm. `script` is a program in `bench/` that runs klamm, followed by the program's own arguments."""
        port = free_port()
        settings = folder / "server.properties"
        settings.write_text("".join(f"{key}={value}\n" for key, value in config.items()), encoding="utf-8")
        arguments = ["serve", "--listen", f"127.0.0.1:{port}", "--data-dir", str(folder / "data")]
        arguments += ["--config", str(settings)] if config else []
        arguments += ["--workers", str(self._workers)] if self._workers > 1 else []
        command = [str(self._program), *arguments]
        if script:
            command = [sys.executable, str(_ROOT / "bench" / script[0]), *script[1:], *arguments]
        process, spawned_at = self.spawn(command, folder, self._environment)
        return RunningPeer(process, port, spawned_at)
