"""Tests that a power cut takes only unsynced data, and that `Power` knows which records are synced."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest
from tests.checker.power import Power
from tests.faults.load import TOPIC, Writer, create, read_all
from tests.interop.broker_process import BrokerProcess
from tests.support import faulty_disk

CONFIG = {"log.segment.bytes": "1048576", "num.partitions": "1"}


@pytest.fixture(autouse=True)
def _needs_a_faulty_disk() -> None:
    if (reason := faulty_disk.why_not()) is not None:
        pytest.skip(reason)


@pytest.mark.parametrize(("fsync", "seed"), [("os", 1), ("os", 2), ("ack", 3)])
def test_a_log_that_lost_its_power_holds_what_was_synced(tmp_path: Path, fsync: str, seed: int) -> None:
    """I8: after a power cut, the log holds all synced records and a prefix of the others, without gaps.

    With klamm.fsync=ack all records were synced. With klamm.fsync=os only some of them were.
    """
    power = Power(tmp_path / "disk", tmp_path / "data", Random(seed))
    process = BrokerProcess(tmp_path, CONFIG | {"klamm.fsync": fsync}, power.environment)
    create(process.bootstrap_servers, 1)
    writer = Writer(process.bootstrap_servers, value_bytes=500)
    for _ in range(30):
        writer.send(100)
        assert writer.flush(60) == 0
    partition = f"{TOPIC}-0"
    while not power.synced([partition])[partition]:
        time.sleep(0.05)  # the broker syncs the full first segment in the background
    writer.send(10)
    assert writer.flush(60) == 0
    written = writer.acknowledged[0]
    process.kill()

    synced = power.synced([partition])[partition]
    power.cut()

    if fsync == "ack":
        assert synced == len(written) == 3010
    else:
        assert 0 < synced < len(written)
    process.start()
    found = read_all(process.bootstrap_servers, 1)[0]
    process.stop()
    assert found == written[: len(found)]
    assert len(found) >= synced


def test_nothing_is_synced_of_a_partition_that_is_not_there(tmp_path: Path) -> None:
    """A partition whose folder does not exist yet has no synced records."""
    power = Power(tmp_path / "disk", tmp_path / "data", Random(1))
    assert power.synced(["records-0"]) == {"records-0": 0}
