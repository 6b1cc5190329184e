"""Tests that a cluster is restarted, one broker after the other with SIGTERM, while clients work: they see no error.

KLAMM_UPGRADE_FROM names a commit, to also test an upgrade from there and the way back: `make upgrade FROM=COMMIT`.
`make upgrade` and `make faults` have a default that differs in a format on the disk.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from tests.checker.cluster_brokers import ClusterBrokers
from tests.faults.load import TOPIC, Keeper, Writer, create, read_all

_PARTITIONS = 3
_FLUSH_S = 120.0
_OLDER = "KLAMM_UPGRADE_FROM"
_ROOT = Path(__file__).parents[2]


class _Reader:
    """A member of a group that reads the topic from its beginning, and keeps the errors that its client reports."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.values: list[str] = []
        self.errors: list[str] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "readers",
                "auto.offset.reset": "earliest",
                "log_level": 0,
                "reconnect.backoff.max.ms": 200,
            }
        )
        self._consumer.subscribe([TOPIC])

    def turn(self) -> None:
        """Reads the next records."""
        for message in self._consumer.consume(1000, timeout=0.2):
            if (error := message.error()) is not None:
                self.errors.append(error.str())
            else:
                value = message.value()
                assert isinstance(value, bytes)
                self.values.append(value.decode().split(":")[0])

    def close(self) -> None:
        """Leaves the group."""
        self._consumer.close()


@contextmanager
def _under_load(cluster: ClusterBrokers) -> Iterator[None]:
    """Lets a producer, a group and a member that commits work meanwhile, and checks afterwards that nothing is lost."""
    create(cluster.bootstrap_servers, _PARTITIONS, 3)
    # A consumer reports a topic that its broker does not know yet as an error.
    cluster.wait_until_in_sync(TOPIC)
    writer, keeper = Writer(cluster.bootstrap_servers), Keeper(cluster.bootstrap_servers)
    reader = _Reader(cluster.bootstrap_servers)
    has_ended = threading.Event()

    def write() -> None:
        while not has_ended.wait(0.02):
            writer.send(20)

    def read() -> None:
        while not has_ended.is_set():
            reader.turn()

    def commit() -> None:
        while not has_ended.wait(0.02):
            keeper.commit()

    threads = [threading.Thread(target=each, daemon=True) for each in (write, read, commit)]
    for thread in threads:
        thread.start()
    yield
    has_ended.set()
    for thread in threads:
        thread.join()
    assert writer.flush(_FLUSH_S) == 0
    assert not writer.errors
    while len(reader.values) < writer.sent:
        reader.turn()
    assert not reader.errors
    assert sorted(map(int, reader.values)) == list(range(writer.sent))
    assert read_all(cluster.bootstrap_servers, _PARTITIONS) == writer.acknowledged
    keeper.check()
    reader.close()
    keeper.close()


@pytest.mark.timeout(600)
def test_a_rolling_restart_under_load(tmp_path: Path) -> None:
    """Each record is acknowledged and read, once. No producer or consumer is told of an error, and no committed offset
    is lost."""
    with ClusterBrokers(tmp_path) as cluster:
        with _under_load(cluster):
            for broker in cluster.numbers:
                with cluster.down(broker, cleanly=True):
                    pass
                cluster.wait_until_in_sync(TOPIC)
        cluster.stop()
        assert "Traceback" not in cluster.log()


@pytest.mark.skipif(_OLDER not in os.environ, reason=f"{_OLDER} names no earlier version: make upgrade FROM=COMMIT")
@pytest.mark.timeout(1200)
def test_a_rolling_upgrade_and_downgrade_under_load(tmp_path: Path) -> None:
    """The brokers of an earlier version are replaced by this one, one after the other, and back again. Brokers of both
    versions work together; nothing is lost, and no client is told of an error."""
    older = _source_of(os.environ[_OLDER], tmp_path / "older")
    programs = {
        "older": ["env", f"PYTHONPATH={older}", sys.executable, "-m", "klamm.cli"],
        "newer": ["env", f"PYTHONPATH={_ROOT / 'src'}", sys.executable, "-m", "klamm.cli"],
    }
    with ClusterBrokers(tmp_path, program=programs["older"]) as cluster:
        with _under_load(cluster):
            for version in ("newer", "older"):
                for broker in cluster.numbers:
                    with cluster.down(broker, cleanly=True):
                        cluster.brokers[broker].program = programs[version]
                    cluster.wait_until_in_sync(TOPIC)
        cluster.stop()
        assert "Traceback" not in cluster.log()


def _source_of(commit: str, folder: Path) -> Path:
    """Writes the source of a commit into a folder, and returns the path for Python."""
    archive = subprocess.run(["git", "archive", commit, "src"], cwd=_ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return folder / "src"
