"""What limits a group, as `klamm group explain` and `klamm group history` show it."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from tests.integration.cli.conftest import PATIENCE_S, Command, Finished
from tests.support.limited_group import HOT_PARTITION, group_with_hot_partition

PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])


def _until(klamm: Command, words: tuple[str, ...], is_so: Callable[[str], bool]) -> Finished:
    """Runs the command until its output meets the condition."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        finished = klamm(*words)
        if finished.status == 0 and is_so(finished.stdout):
            return finished
    raise AssertionError(finished)


@PROTOCOLS
def test_a_hot_partition_is_told_with_its_figures(klamm: Command, topic: str, group: str, protocol: str) -> None:
    """`group explain` names the partition that limits the group, its owner, the rates, and what helps."""
    address = klamm.environment["KLAMM_BOOTSTRAP_SERVER"]
    hot = f"{topic}-{HOT_PARTITION}"
    with group_with_hot_partition(address, topic, group, members=4, **{"group.protocol": protocol}):
        finished = _until(klamm, ("group", "explain", group, "--measure", "4s"), lambda text: "limited by" in text)
    lines = [line.strip().removeprefix("· ") for line in finished.stdout.splitlines()]
    assert "the group has lag; its rates are measured for up to 4.0 s" in finished.stderr
    (limit,) = (line for line in lines if line.startswith("limited by"))
    assert limit.startswith(f"limited by {hot}: ")
    assert ", its owner member-" in limit
    assert limit.endswith("; 1 of 4 members is idle, 2 have no lag that grows")
    (helps,) = (line for line in lines if line.startswith("more members do not help"))
    assert f"{hot} alone gets " in helps
    assert f"`klamm topic skew {topic}`" in helps


def test_a_group_that_keeps_up_is_explained_at_once(klamm: Command, topic: str, group: str) -> None:
    """A group without lag is not measured."""
    klamm.start("consume", topic, "-g", group)
    finished = _until(klamm, ("group", "explain", group), lambda text: "stable" in text)
    assert finished.stderr == ""
    assert "limited" not in finished.stdout
