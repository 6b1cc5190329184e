"""Tests a small fixed set of worlds of several brokers in every test run; `make sim` runs any number of worlds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.simulation.clusters.bugs import CLUSTER_BUGS
from tests.simulation.run import run_seed
from tests.simulation.test_simulation import assert_is_readable
from tests.support.share_of_gate import share_of_gate

# A test with hundreds of worlds may take long on a slow machine.
pytestmark = pytest.mark.timeout(900)

SEEDS = range(1, 13)
ROOT = Path(__file__).parents[2]
CHECKSUM = (
    "import sys; from tests.simulation.run import run_seed;"
    " print(run_seed(int(sys.argv[1]), kind='cluster', sums=True).checksum)"
)

EVENTFUL = (
    *("has no leader, and goes from broker", "is led by broker", "the watch of", "has lost its session"),
    *("does not learn whether it has written", "does not reach broker", "the process is killed during"),
    *("the power goes", "is told to stop", "has widened", "has deleted", "NOT_LEADER_OR_FOLLOWER", "NOT_COORDINATOR"),
    *("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "CONCURRENT_TRANSACTIONS"),
)
"""Texts that must occur in the notes of these worlds."""

SEEDS_UNTIL_FOUND = {
    "keep leading": 10,
    "answer before the load": 70,
    "answer after the resignation": 40,
    "send no marker again": 150,
    "forget waiting markers": 200,
    "repeat blindly": 50,
    "take unknown for done": 120,
    "show parts": 70,
    "serve any epoch": 160,
    "acknowledge without a session": 150,
}
"""The number of seeds within which each planted bug is found: about three times the longest run of seeds that did not
find it.
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_invariants_of_clusters_hold(seed: int) -> None:
    """I1, I3 to I6, I8 to I18 and I26 hold for the clients of several brokers in the world of this seed."""
    outcome = run_seed(seed, kind="cluster")
    assert outcome.is_ok, outcome.failure


@pytest.mark.parametrize("seed", [3, 28])
def test_seed_replays_exactly(seed: int) -> None:
    """A seed has the same events in two processes with different hashes of strings."""
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


@pytest.mark.parametrize("bug", share_of_gate(sorted(CLUSTER_BUGS), 6))
def test_planted_bug_is_found(bug: str) -> None:
    """A bug that is planted into what several brokers do together is found within the stated number of seeds."""
    for seed in range(1, SEEDS_UNTIL_FOUND[bug] + 1):
        outcome = run_seed(seed, kind="cluster", bug=bug)
        if not outcome.is_ok:
            assert_is_readable(outcome.failure)
            return
    pytest.fail(f"{bug!r} was not found")


def test_worlds_of_clusters_are_eventful() -> None:
    """Each kind of fault occurs within 150 seeds, and clients meet its effects."""
    missing = set(EVENTFUL)

    def listen(line: str) -> None:
        missing.difference_update([words for words in missing if words in line])

    for seed in range(1, 151):
        run_seed(seed, kind="cluster", listener=listen)
        if not missing:
            return
    assert not missing
