"""What the log of a broker says about partitions that it can't copy."""

from __future__ import annotations

import logging
import re
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from klamm.testing import Cluster

_PARTITIONS = 3
_PATIENCE_S = 30.0
_LINE = re.compile(r"(\d+) partition\(s\) can't be fetched from broker (\d+); the first is (\S+):")


def test_partitions_that_can_t_be_fetched_share_a_line(caplog: pytest.LogCaptureFixture) -> None:
    """The leader's copy of three partitions is damaged. The follower, which tries again and again, refuses the records
    and says so once for each partition; partitions that fail at the same time share a line."""
    with Cluster(2, replication_factor=2, session_timeout_ms=600) as cluster, caplog.at_level(logging.WARNING):
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        leader, follower = cluster.brokers
        admin.create_topics([NewTopic("damaged", _PARTITIONS, replica_assignment=[[leader, follower]] * _PARTITIONS)])[
            "damaged"
        ].result()
        cluster.kill(follower)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": 1, "log_level": 0})
        for partition in range(_PARTITIONS):
            producer.produce("damaged", b"value", partition=partition)
        assert producer.flush(_PATIENCE_S) == 0
        for partition in range(_PARTITIONS):
            _damage(cluster.data_dir_of(leader) / f"damaged-{partition}" / f"{0:020}.log")
        cluster.restart(follower)
        deadline = time.monotonic() + _PATIENCE_S
        while sum(count for count, *_ in _lines(caplog)) < _PARTITIONS:
            assert time.monotonic() < deadline, caplog.text
            time.sleep(0.02)
        # By then the partitions have failed some more times.
        time.sleep(1)
        lines = _lines(caplog)
    assert sum(count for count, *_ in lines) == _PARTITIONS
    assert {number for _, number, _ in lines} == {leader}
    assert all(name.startswith("damaged-") for *_, name in lines)


def _lines(caplog: pytest.LogCaptureFixture) -> list[tuple[int, int, str]]:
    found = (_LINE.search(record.getMessage()) for record in caplog.records)
    return [(int(line[1]), int(line[2]), line[3]) for line in found if line]


def _damage(segment: Path) -> None:
    """Flips a bit of the last byte, which is a record's."""
    with segment.open("r+b") as file:
        file.seek(-1, 2)
        (last,) = file.read(1)
        file.seek(-1, 2)
        file.write(bytes([last ^ 1]))
