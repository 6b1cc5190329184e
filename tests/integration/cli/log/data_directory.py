"""A data directory that a broker has written and closed cleanly, for tests of commands that read one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from klamm.cli.main import main
from klamm.testing import Broker

__all__ = ["RECORDS", "closed_directory", "directory", "lines"]

RECORDS = 40


@pytest.fixture(scope="session")
def closed_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Creates a directory with a topic of two partitions, batches of two producers in two codecs, a group with a
    commit, and group history."""
    directory = tmp_path_factory.mktemp("closed") / "data"
    config = {"num.partitions": "2", "auto.create.topics.enable": "true", "offsets.topic.num.partitions": "1"}
    with Broker(data_dir=directory, config=config) as broker:
        for codec in ("none", "zstd"):
            producer = Producer(
                {
                    "bootstrap.servers": broker.bootstrap_servers,
                    "compression.type": codec,
                    "enable.idempotence": True,
                }
            )
            for number in range(RECORDS // 2):
                producer.produce(
                    "orders", key=b"k%d" % number, value=b"value %d" % number, partition=0, headers={"codec": codec}
                )
                if number == RECORDS // 4:
                    producer.flush()
            producer.flush()
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "billing"})
        consumer.commit(offsets=[TopicPartition("orders", 0, 7)], asynchronous=False)
        consumer.close()
    return directory


@pytest.fixture
def directory(closed_directory: Path, tmp_path: Path) -> Path:
    """Returns a copy that a test may change."""
    copy = tmp_path / "data"
    shutil.copytree(closed_directory, copy)
    return copy


def lines(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> Iterator[dict[str, Any]]:
    """Returns the rows that a command prints with --json."""
    assert main([*words, "--json"]) == status, capsys.readouterr()
    return map(json.loads, capsys.readouterr().out.splitlines())
