"""Tests the command lines of a cluster's members, and what is said if a program or package is missing."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest

from klamm.cli import serve
from klamm.cli.cluster.cluster_record import ClusterProblem, ClusterRecord, Member
from klamm.cli.cluster.member_commands import (
    broker_command,
    check_packages,
    environment_of,
    etcd_command,
    find_etcd,
)

RECORD = ClusterRecord(1, Member.etcd(10_000, 10_001), (Member.broker(1, 10_002), Member.broker(2, 10_003)))
DIRECTORY = Path("/data/cluster")


def test_a_broker_is_started_by_klamm_serve() -> None:
    """Each broker has its id, address and folder, and all have the same metadata store and settings."""
    command = broker_command(RECORD.brokers[1], RECORD, DIRECTORY)
    assert command[:5] == [sys.executable, "-P", "-m", "klamm.cli", "serve"]
    parser = argparse.ArgumentParser()
    serve.configure(parser)
    arguments = parser.parse_args(command[5:])
    assert arguments.metadata == "etcd://127.0.0.1:10000/klamm"
    assert arguments.broker_id == 2
    assert arguments.listen == "127.0.0.1:10003"
    assert arguments.data_dir == "/data/cluster/broker-2"
    assert ("default.replication.factor", "1") in arguments.overrides
    assert ("advertised.listeners", "PLAINTEXT://127.0.0.1:10003") in arguments.overrides


def test_etcd_listens_on_its_own_ports() -> None:
    """The ports differ from those of an etcd that is a service of the machine. Other machines do not reach them."""
    command = etcd_command("/usr/bin/etcd", RECORD, DIRECTORY)
    assert command[0] == "/usr/bin/etcd"
    assert "--data-dir=/data/cluster/etcd" in command
    assert "--listen-client-urls=http://127.0.0.1:10000" in command
    assert "--listen-peer-urls=http://127.0.0.1:10001" in command
    assert "--initial-cluster=etcd=http://127.0.0.1:10001" in command


def test_variables_reach_brokers_but_not_etcd() -> None:
    """Brokers get the whole environment. Variables of etcd are for another etcd, except the one that etcd needs to run
    at all on some machines."""
    environ = {"PATH": "/bin", "KLAMM_NUM_PARTITIONS": "6", "ETCD_DISCOVERY": "x", "ETCD_UNSUPPORTED_ARCH": "arm64"}
    assert environment_of(RECORD.brokers[0], environ) == environ
    assert "ETCD_DISCOVERY" not in environment_of(RECORD.etcd, environ)
    assert environment_of(RECORD.etcd, environ)["ETCD_UNSUPPORTED_ARCH"] == "arm64"


def test_a_missing_etcd_is_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The error names the package."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClusterProblem, match="apt-get install etcd-server"):
        find_etcd()


@pytest.mark.parametrize("package", ["grpc", "google.protobuf", "google"])
def test_missing_packages_are_told_with_what_to_install(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the extra, and the package that is missing. `google` is missing with its last package."""
    monkeypatch.delitem(sys.modules, "google.protobuf", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ClusterProblem, match=rf"pip install '\.\[cluster\]' .*\({package}"):
        check_packages()
