"""Tests the search for hanging transactions, if a partition can't be asked."""

from __future__ import annotations

import argparse
import json
from types import SimpleNamespace
from typing import Any

import pytest

from klamm.cli import txn
from klamm.client.errors import RequestRefused
from klamm.insight.cluster_access import ClusterAccess
from klamm.insight.errors import ClusterError
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import TopicPartition


class _Client:
    """Partitions, each with one transaction that has been open since 1970, and no coordinator that knows it."""

    def producers(self, partition: TopicPartition) -> list[Any]:
        if partition.topic == "gone":
            raise RequestRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no partition gone-0")
        assert partition.partition == 0, "a request to a partition without a leader is retried until its time is over"
        return [
            SimpleNamespace(
                current_txn_start_offset=5, producer_id=7, producer_epoch=0, coordinator_epoch=-1, last_timestamp=0
            )
        ]

    def transactional_ids(self, request: object) -> list[Any]:
        return []

    def close(self) -> None:
        pass


class _Access(ClusterAccess):
    def admin_client(self) -> Any:
        partitions = {0: SimpleNamespace(leader=1), 1: SimpleNamespace(leader=-1)}
        topics = {
            "gone": SimpleNamespace(partitions={0: SimpleNamespace(leader=1)}),
            "orders": SimpleNamespace(partitions=partitions),
        }
        return SimpleNamespace(list_topics=lambda timeout: SimpleNamespace(topics=topics))


def _run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(txn, "_client", lambda arguments: _Client())
    monkeypatch.setattr(txn, "access_of", lambda arguments: _Access("localhost:9092"))
    parser = argparse.ArgumentParser()
    txn.configure(parser)
    return txn.run(parser.parse_args(["list", "--hanging", "-o", "json", *words]))


def test_partitions_without_a_leader_are_named_and_the_others_searched(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The status is 1, because the search is not complete. A topic that is deleted meanwhile has no transaction."""
    assert _run(monkeypatch) == 1
    shown = capsys.readouterr()
    assert [(row["topic"], row["partition"]) for row in json.loads(shown.out)] == [("orders", 0)]
    assert shown.err == "klamm txn: orders-1 has no leader, so it was not searched\n"


def test_a_partition_that_does_not_exist_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was named, so it is not one that was deleted meanwhile."""
    with pytest.raises(ClusterError, match="topic orders has no partition 2"):
        _run(monkeypatch, "--topic", "orders:0,2")
