"""Tests a small fixed set of worlds with replicated partitions in every test run; `make sim` runs any number of
worlds."""

from __future__ import annotations

import pytest
from tests.simulation.run import run_seed
from tests.simulation.test_simulation import assert_is_readable
from tests.support.share_of_gate import share_of_gate

# A test with hundreds of worlds may take long on a slow machine.
pytestmark = pytest.mark.timeout(900)

SEEDS = range(1, 13)
EVENTFUL = (
    *("is led in epoch 3", "the power goes", "the process is killed", "has lost its session", "does not reach broker"),
    *("NOT_ENOUGH_REPLICAS", "NOT_LEADER_OR_FOLLOWER", "NOT_COORDINATOR", "is told to stop"),
)
"""Texts that must occur in the notes of these worlds."""

SEEDS_UNTIL_FOUND = {
    "let the high watermark fall": 40,
    "keep the places": 40,
    "count unsynced records": 60,
    "commit alone": 30,
    "repeat blindly": 50,
    "acknowledge without a session": 150,
}
"""The number of seeds within which each planted bug is found."""


@pytest.mark.parametrize("seed", SEEDS)
def test_invariants_of_replicas_hold(seed: int) -> None:
    """I1 to I6, I8 to I18 and I26 hold for the clients and the replicas in the world of this seed."""
    outcome = run_seed(seed, kind="replicas")
    assert outcome.is_ok, outcome.failure


def test_seed_replays_exactly() -> None:
    """A seed has the same events each time."""
    first, second = (run_seed(5, kind="replicas", sums=True) for _ in range(2))
    assert (first.checksum, first.steps) == (second.checksum, second.steps)


@pytest.mark.parametrize("bug", share_of_gate(sorted(SEEDS_UNTIL_FOUND), 3))
def test_planted_bug_is_found(bug: str) -> None:
    """A bug that is planted into replication is found within the stated number of seeds."""
    for seed in range(1, SEEDS_UNTIL_FOUND[bug] + 1):
        outcome = run_seed(seed, kind="replicas", bug=bug)
        if not outcome.is_ok:
            assert_is_readable(outcome.failure)
            return
    pytest.fail(f"{bug!r} was not found")


def test_worlds_of_replicas_are_eventful() -> None:
    """Each kind of fault occurs within 40 seeds, and clients meet its effects."""
    missing = set(EVENTFUL)

    def listen(line: str) -> None:
        missing.difference_update([words for words in missing if words in line])

    for seed in range(1, 41):
        run_seed(seed, kind="replicas", listener=listen)
        if not missing:
            return
    assert not missing
