"""Tests a small fixed set of worlds with replicated partitions in every test run; `make sim` runs any number of
worlds."""

from __future__ import annotations

import pytest
from tests.simulation.clusters.plan import MAJORITY, UNLIMITED
from tests.simulation.run import run_seed
from tests.simulation.test_simulation import assert_is_readable
from tests.support.share_of_gate import share_of_gate

# A test with hundreds of worlds may take long on a slow machine.
pytestmark = pytest.mark.timeout(900)

SEEDS = range(1, 13)
EVENTFUL_UNLIMITED = (
    *("do not reach brokers [", "does not reach the metadata store", "stands still"),
    *("the power goes", "the session of broker 1 ends", "as the metadata tell", "does not start"),
)
EVENTFUL = (
    *("is led in epoch 3", "the power goes", "the process is killed", "has lost its session", "does not reach broker"),
    *("NOT_ENOUGH_REPLICAS", "NOT_LEADER_OR_FOLLOWER", "NOT_COORDINATOR", "is told to stop"),
)
"""Texts that must occur in the notes of these worlds, with unlimited faults and with faults that leave a majority."""

SEEDS_UNTIL_FOUND = {
    "truncate to the high watermark": 50,
    "join too early": 30,
    "let the high watermark fall": 20,
    "ignore the proposal": 30,
    "trust an earlier run": 40,
    "skip the broker epoch": 40,
    "keep the eligible": 40,
    "elect anybody": 20,
    "keep the places": 20,
    "count unsynced records": 30,
    "commit alone": 30,
    "repeat blindly": 50,
    "acknowledge without a session": 150,
    "show uncommitted records": 20,
    "forget the boot": 80,
}
"""The number of seeds within which each planted bug is found."""


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("faults", [MAJORITY, UNLIMITED])
def test_invariants_of_replicas_hold(seed: int, faults: str) -> None:
    """I1 to I6, I8 to I18 and I26 hold for the clients and the replicas in the world of this seed. With unlimited
    faults, I26 does not need to hold.
    """
    outcome = run_seed(seed, kind="replicas", faults=faults)
    assert outcome.is_ok, outcome.failure


@pytest.mark.parametrize("faults", [MAJORITY, UNLIMITED])
def test_seed_replays_exactly(faults: str) -> None:
    """A seed has the same events each time."""
    first, second = (run_seed(5, kind="replicas", sums=True, faults=faults) for _ in range(2))
    assert (first.checksum, first.steps) == (second.checksum, second.steps)


@pytest.mark.parametrize("bug", share_of_gate(sorted(SEEDS_UNTIL_FOUND), 6))
def test_planted_bug_is_found(bug: str) -> None:
    """A bug that is planted into replication is found within the stated number of seeds."""
    for seed in range(1, SEEDS_UNTIL_FOUND[bug] + 1):
        outcome = run_seed(seed, kind="replicas", bug=bug)
        if not outcome.is_ok:
            assert_is_readable(outcome.failure)
            return
    pytest.fail(f"{bug!r} was not found")


@pytest.mark.parametrize(("faults", "texts"), [(MAJORITY, EVENTFUL), (UNLIMITED, EVENTFUL_UNLIMITED)])
def test_worlds_of_replicas_are_eventful(faults: str, texts: tuple[str, ...]) -> None:
    """Each kind of fault occurs within 40 seeds, and clients meet its effects."""
    missing = set(texts)

    def listen(line: str) -> None:
        missing.difference_update([words for words in missing if words in line])

    for seed in range(1, 41):
        run_seed(seed, kind="replicas", listener=listen, faults=faults)
        if not missing:
            return
    assert not missing
