"""Tests the file that records the members of a cluster on one machine."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from klamm.cli.cluster.cluster_record import (
    ClusterProblem,
    ClusterRecord,
    Member,
    existing_record,
    locked,
    read_record,
    write_record,
)
from klamm.cli.cluster.member_process import ProcessIdentity, identify

RECORD = ClusterRecord(2, Member.etcd(10_000, 10_001), (Member.broker(1, 10_002), Member.broker(2, 10_003)))


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    """Ports, processes and the replication factor are read back unchanged, and no other file is left."""
    record = RECORD.with_process("broker-2", ProcessIdentity(42, "boot 17"))
    write_record(tmp_path, RECORD)
    write_record(tmp_path, record)
    assert read_record(tmp_path) == record
    assert os.listdir(tmp_path) == ["cluster.json"]


def test_a_process_belongs_to_one_member() -> None:
    """A start changes the process of the member with that name, a stop removes it."""
    process = ProcessIdentity(42, "boot 17")
    record = RECORD.with_process("broker-2", process)
    assert [member.process for member in record.members] == [None, None, process]
    assert record.with_process("broker-2", None) == RECORD
    assert record.with_process("etcd", process).etcd.process == process


def test_clients_get_the_addresses_of_all_brokers() -> None:
    """The bootstrap servers are the brokers in the order of their ids, without etcd."""
    assert RECORD.bootstrap_servers == "127.0.0.1:10002,127.0.0.1:10003"


def test_where_no_cluster_is_the_error_says_how_to_make_one(tmp_path: Path) -> None:
    """A folder without the file, or no folder, is no cluster."""
    assert read_record(tmp_path) is None
    for directory in (tmp_path, tmp_path / "missing"):
        with pytest.raises(ClusterProblem, match="`klamm cluster start` makes one"):
            existing_record(directory)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-20],
        lambda text: "[]",
        lambda text: json.dumps({**json.loads(text), "version": 2}),
        lambda text: json.dumps({**json.loads(text), "brokers": json.loads(text)["brokers"][1:]}),
        lambda text: json.dumps({**json.loads(text), "etcd": {"name": "etcd"}}),
    ],
)
def test_a_damaged_file_is_refused(damage: object, tmp_path: Path) -> None:
    """A file that is cut off, of another version, or without a part is not guessed at: the error names it."""
    write_record(tmp_path, RECORD)
    path = tmp_path / "cluster.json"
    assert callable(damage)
    path.write_text(damage(path.read_text()))
    with pytest.raises(ClusterProblem, match=r"cluster\.json is damaged"):
        read_record(tmp_path)


def test_a_removed_record_is_gone(tmp_path: Path) -> None:
    """None removes the file, also if there is none."""
    write_record(tmp_path, RECORD)
    for _ in range(2):
        write_record(tmp_path, None)
        assert read_record(tmp_path) is None


def test_one_command_at_a_time_works_on_a_cluster(tmp_path: Path) -> None:
    """A second command does not wait, because a start may take a minute. After the first one it may go on."""
    with locked(tmp_path), pytest.raises(ClusterProblem, match="another command"), locked(tmp_path):
        pass
    with locked(tmp_path):
        assert os.listdir(tmp_path) == []


def test_a_process_with_the_same_id_is_no_member() -> None:
    """A member runs if its process has the recorded id and the recorded start."""
    this = identify(os.getpid())
    assert RECORD.with_process("etcd", this).etcd.is_running
    assert not RECORD.with_process("etcd", ProcessIdentity(this.pid, "earlier")).etcd.is_running
    assert not RECORD.etcd.is_running
