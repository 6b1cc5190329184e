"""The line that shows how far reassignments came."""

from __future__ import annotations

from argparse import Namespace

import pytest
from tests.unit.insight.canned_cluster import CannedCluster

from klamm.cli.cluster.reassign_wait import progress_line, wait_for_moves
from klamm.insight.cluster.moving_partitions import Moving
from klamm.insight.cluster.reassignment_progress import MoveProgress


def _move(lag: int | None, size_bytes: int | None) -> MoveProgress:
    return MoveProgress(Moving("orders", 0, (1, 2), (2,), (1,)), lag, 1_000, size_bytes)


def test_partitions_offsets_and_bytes_are_summed_up() -> None:
    """What all partitions together still have to copy."""
    line = progress_line([_move(10, 3_000), _move(1_190, 2_000)], 5)
    assert line.startswith("2 of 5 partitions left, added replicas 1,200 offsets behind, ")
    assert line.endswith(" copied")


def test_what_brokers_do_not_tell_is_left_out() -> None:
    """Bytes are shown only if they are known of all partitions, offsets if they are known of any."""
    assert progress_line([_move(None, None)], 1) == "1 of 1 partition left"
    assert (
        progress_line([_move(5, None), _move(None, 2_000)], 2)
        == "2 of 2 partitions left, added replicas 5 offsets behind"
    )


def test_a_topic_that_was_deleted_meanwhile_is_told_and_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    """The other partitions have moved."""
    cluster = CannedCluster([1, 2], {"orders": [(2,)]})
    plan = {("gone", 0): (2,), ("orders", 0): (2,)}
    assert wait_for_moves(Namespace(throttle=None, output="table"), cluster, plan) == 0
    shown = capsys.readouterr()
    assert shown.err == "klamm cluster: gone-0 no longer exists\n"
    assert shown.out == "1 partition moved\n"
