"""Tests a small fixed set of worlds of brokers in every test run; `make sim` runs any number of worlds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.simulation.brokers.bugs import BROKER_BUGS
from tests.simulation.planted import Planted, assert_is_found
from tests.simulation.run import run_seed
from tests.support.share_of_gate import share_of_gate

# A test with hundreds of worlds may take long on a slow machine.
pytestmark = pytest.mark.timeout(900)

SEEDS = range(1, 31)
ROOT = Path(__file__).parents[2]
CHECKSUM = (
    "import sys; from tests.simulation.run import run_seed;"
    " print(run_seed(int(sys.argv[1]), kind='broker', sums=True).checksum)"
)

EVENTFUL = (
    *("the power goes during pwritev", "the power goes during fdatasync", "the process is killed during"),
    *("the disk is almost full", "fdatasync of", "the broker is told to stop", "the connection broke"),
    *("FENCED_LEADER_EPOCH", "KAFKA_STORAGE_ERROR", "goes back in", "has lost its place in"),
    *("has ended transaction", "begins anew", "dies in", "repeats a marker", "CONCURRENT_TRANSACTIONS"),
    *("UNSTABLE_OFFSET_COMMIT", "finds that epoch"),
    *("is told REBALANCE_IN_PROGRESS", "is told UNKNOWN_MEMBER_ID", "is told FENCED_MEMBER_EPOCH", "in epoch 3"),
)
"""Texts that must occur in the notes of these worlds."""

PLANTED = {
    "answer before the sync": Planted(30, (4,)),
    "read beyond the high watermark": Planted(60, (5,)),
    "commit what is written": Planted(30, (4, 5)),
    "commit what was found": Planted(70, (4, 5)),
    "let coordinators answer early": Planted(210, (12, 13, 15, 17, 26)),
    "drop from the session": Planted(30, (1, 26)),
    "forget to answer news": Planted(10, (26,)),
    "skip an offset": Planted(110, (1,)),
    "hide an aborted transaction": Planted(60, (11,)),
    "expire an open producer": Planted(210, (11, 13, 14, 26)),
    "end the next transaction": Planted(50, (11, 13, 26)),
    "skip verification": Planted(30, (13, 14, 26)),
    "forget a marker": Planted(30, (11, 13, 14, 26)),
    "mark with the old epoch": Planted(20, (13,)),
    "show pending offsets": Planted(30, (12,)),
    "forget pending offsets": Planted(30, (12,)),
    "list what is unstable": Planted(90, (11,)),
    "find the next offset": Planted(60, (9,)),
    "end an epoch late": Planted(30, (1, 26)),
    "store no assignments": Planted(480, (15,)),
    "serve any warm read": Planted(250, (1,)),
    "send few bytes from files": Planted(60, (), ("expected a bytes-like object, StoredBatches found",)),
}
"""What is expected of each planted bug."""


@pytest.mark.parametrize("seed", SEEDS)
def test_invariants_of_brokers_hold(seed: int) -> None:
    """I1, I4, I5, I8 to I18 and I26 hold for the clients of a whole broker in the world of this seed."""
    outcome = run_seed(seed, kind="broker")
    assert outcome.is_ok, outcome.failure


@pytest.mark.parametrize("seed", [3, 11, 28])
def test_seed_replays_exactly(seed: int) -> None:
    """A seed has the same events in two processes with different hashes of strings.

    The test compares two new processes. In the test's own process, the broker of another test may draw from the same
    random numbers.
    """
    assert _checksum(seed, hash_seed=1) == _checksum(seed, hash_seed=123)


def _checksum(seed: int, *, hash_seed: int) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", CHECKSUM, str(seed)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout


@pytest.mark.parametrize("bug", share_of_gate(sorted(BROKER_BUGS), 6))
def test_planted_bug_is_found(bug: str) -> None:
    """A bug that is planted into the broker or its client breaks one of the stated invariants within the stated number
    of seeds."""
    assert_is_found("broker", bug, PLANTED[bug])


def test_worlds_of_brokers_are_eventful() -> None:
    """Each kind of fault occurs within 150 seeds, and clients meet its effects."""
    missing = set(EVENTFUL)

    def listen(line: str) -> None:
        missing.difference_update([words for words in missing if words in line])

    for seed in range(1, 151):
        run_seed(seed, kind="broker", listener=listen)
        if not missing:
            return
    assert not missing
