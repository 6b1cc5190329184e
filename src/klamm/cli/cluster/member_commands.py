"""The command lines of a cluster's members, and what they need to be installed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from klamm.cli.cluster.cluster_record import HOST, ClusterProblem, ClusterRecord, Member
from klamm.cli.cluster.replication_settings import cluster_settings

__all__ = ["broker_command", "check_packages", "environment_of", "etcd_command", "find_etcd"]

_PREFIX: Final = "klamm"
_PACKAGES: Final = ("grpc", "google.protobuf")
_KEPT_OF_ETCD: Final = "ETCD_UNSUPPORTED_ARCH"


def find_etcd() -> str:
    """Returns the path of the program etcd. Raises ClusterProblem if it is not installed."""
    program = shutil.which("etcd")
    if program is None:
        raise ClusterProblem(
            "etcd, which stores the metadata of a cluster, is not on PATH. Install it: `apt-get install etcd-server` "
            "on Debian and Ubuntu, `brew install etcd` on macOS, or a release of https://github.com/etcd-io/etcd/releases"
        )
    return program


def check_packages() -> None:
    """Raises ClusterProblem if the Python packages for etcd are not installed."""
    for name in _PACKAGES:
        try:
            is_missing = importlib.util.find_spec(name) is None
        except ModuleNotFoundError:  # the parent package
            is_missing = True
        if is_missing:
            raise ClusterProblem(
                "a cluster needs the extra cluster: pip install '.[cluster]' in a clone of klamm "
                f"({name} is not installed)"
            )


def etcd_command(program: str, record: ClusterRecord, directory: Path) -> list[str]:
    """Returns the command line of etcd. Its old revisions go after an hour, as `docs/reference/etcd.md` recommends."""
    etcd = record.etcd
    client_url, peer_url = f"http://{etcd.address}", f"http://{HOST}:{etcd.peer_port}"
    return [
        program,
        f"--name={etcd.name}",
        f"--data-dir={etcd.data_directory(directory)}",
        f"--listen-client-urls={client_url}",
        f"--advertise-client-urls={client_url}",
        f"--listen-peer-urls={peer_url}",
        f"--initial-advertise-peer-urls={peer_url}",
        f"--initial-cluster={etcd.name}={peer_url}",
        "--auto-compaction-mode=periodic",
        "--auto-compaction-retention=1h",
    ]


def broker_command(broker: Member, record: ClusterRecord, directory: Path) -> list[str]:
    """Returns the command line of a broker."""
    settings = {
        # A variable of the environment would name one address for all brokers.
        "advertised.listeners": f"PLAINTEXT://{broker.address}",
        **cluster_settings(len(record.brokers), record.replication_factor),
    }
    options = {
        "--metadata": f"etcd://{record.etcd.address}/{_PREFIX}",
        "--broker-id": str(broker.broker_id),
        "--listen": broker.address,
        "--data-dir": str(broker.data_directory(directory)),
    }
    words = [word for option in options.items() for word in option]
    # -P: the working directory may have any Python files, so it must not be on the path of imports.
    serve = [sys.executable, "-P", "-m", "klamm.cli", "serve", *words]
    return [*serve, *(word for key, value in settings.items() for word in ("-X", f"{key}={value}"))]


def environment_of(member: Member, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns the environment of a member. Brokers get all of it, so `KLAMM_NUM_PARTITIONS` works as for `klamm serve`.

    etcd gets none of its own variables, because it refuses those that contradict its options.
    """
    if member.broker_id is not None:
        return dict(environ)
    return {name: value for name, value in environ.items() if not name.startswith("ETCD_") or name == _KEPT_OF_ETCD}
