"""Tests a small fixed set of worlds of workers in every test run; `make sim` runs any number of worlds."""

from __future__ import annotations

import pytest
from tests.simulation.delivery.bugs import DELIVERY_BUGS
from tests.simulation.run import run_seed
from tests.simulation.test_simulation import assert_is_readable
from tests.support.share_of_gate import share_of_gate

SEEDS = range(1, 101)

SEEDS_UNTIL_FOUND = {
    "commit past an unfinished record": 30,
    "run two records of a key": 30,
    "let a retry be overtaken": 30,
    "read ranges wrongly": 100,
    "read fewer ranges": 100,
    "commit after the loss": 150,
    "forget inherited ranges": 510,
    "ignore the room": 190,
    "never resume": 30,
    "drain nothing": 100,
    "repeat a batch out of order": 80,
    "keep the deadline of a batch": 380,
    "forget a failed commit": 700,
}
"""The number of seeds within which each planted bug is found: about three times the longest run of seeds that did not
find it.
"""

EVENTFUL = ("drains", "is cut off", "has lost its partitions", "crashes", "with ((", "metadata=klamm1:")
"""Texts that must occur in the notes of these worlds."""


@pytest.mark.parametrize("seeds", [SEEDS[start : start + 20] for start in range(0, len(SEEDS), 20)])
def test_invariants_of_workers_hold(seeds: range) -> None:
    """I24 and I25 hold in the worlds of these seeds, and all records are handled and committed in the end."""
    for seed in seeds:
        outcome = run_seed(seed, kind="delivery")
        assert outcome.is_ok, outcome.failure


@pytest.mark.parametrize("seed", [5, 17])
def test_seed_replays_exactly(seed: int) -> None:
    """A seed has the same events each time."""
    assert run_seed(seed, kind="delivery", sums=True) == run_seed(seed, kind="delivery", sums=True)


@pytest.mark.parametrize("bug", share_of_gate(sorted(DELIVERY_BUGS), 6))
def test_planted_bug_is_found(bug: str) -> None:
    """A bug that is planted into the decisions of a worker breaks an invariant within the stated number of seeds."""
    for seed in range(1, SEEDS_UNTIL_FOUND[bug] + 1):
        outcome = run_seed(seed, kind="delivery", bug=bug)
        if not outcome.is_ok:
            assert_is_readable(outcome.failure)
            return
    pytest.fail(f"{bug!r} was not found")


def test_worlds_of_workers_are_eventful() -> None:
    """Each kind of fault occurs within these seeds."""
    missing = set(EVENTFUL)

    def listen(line: str) -> None:
        missing.difference_update([words for words in missing if words in line])

    for seed in SEEDS:
        run_seed(seed, kind="delivery", listener=listen)
    assert not missing
