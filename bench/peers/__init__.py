"""The measured brokers. Each module has one `Peer`."""

from __future__ import annotations

from pathlib import Path

from bench.load_programs import LoadPrograms
from bench.peers.apache_kafka import ApacheKafka
from bench.peers.base import Peer, PeerUnavailable, RunningPeer
from bench.peers.cluster import RunningCluster
from bench.peers.klamm import Klamm
from bench.peers.librdkafka_mock import LibrdkafkaMock
from bench.peers.tansu import Tansu

__all__ = [
    "BASELINE",
    "PEER_NAMES",
    "USUAL_PEERS",
    "Klamm",
    "Peer",
    "PeerUnavailable",
    "RunningCluster",
    "RunningPeer",
    "make_peer",
]

USUAL_PEERS = ("klamm", "kafka", "tansu", "mock")
PEER_NAMES = (*USUAL_PEERS, "workers2", "workers4")
BASELINE = "baseline"
"""The name of another checkout of klamm among the peers."""


def make_peer(name: str, *, programs: LoadPrograms, cache: Path, profile_folder: Path | None = None) -> Peer:
    """Returns the peer called `name` (one of PEER_NAMES). Raises `PeerUnavailable` with the reason if it can't run."""
    if name == "klamm":
        return Klamm(profile_folder)
    if name.startswith("workers"):
        return Klamm(workers=int(name.removeprefix("workers")))
    if name == "kafka":
        return ApacheKafka()
    if name == "tansu":
        return Tansu(cache)
    return LibrdkafkaMock(programs)
