"""Tests a small fixed set of worlds of workers in every test run; `make sim` runs any number of worlds."""

from __future__ import annotations

import pytest
from tests.simulation.delivery.bugs import DELIVERY_BUGS
from tests.simulation.planted import Planted, assert_is_found
from tests.simulation.run import run_seed
from tests.support.share_of_gate import share_of_gate

SEEDS = range(1, 101)

PLANTED = {
    "commit past an unfinished record": Planted(30, (24,)),
    "run two records of a key": Planted(30, (24,)),
    "let a retry be overtaken": Planted(30, (24, 26)),
    "read ranges wrongly": Planted(100, (24,)),
    "read fewer ranges": Planted(100, (25,)),
    "commit after the loss": Planted(150, (25, 26)),
    "forget what still runs": Planted(1500, (24,)),
    "forget inherited ranges": Planted(510, (25,)),
    "ignore the room": Planted(190, (25,)),
    "never resume": Planted(30, (26,)),
    "drain nothing": Planted(100, (24,)),
    "repeat a batch out of order": Planted(80, (24, 26)),
    "keep the deadline of a batch": Planted(380, (24,)),
    "forget a failed commit": Planted(700, (26,)),
}
"""What is expected of each planted bug."""

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
    """A bug that is planted into the decisions of a worker breaks one of the stated invariants within the stated number
    of seeds."""
    assert_is_found("delivery", bug, PLANTED[bug])


def test_worlds_of_workers_are_eventful() -> None:
    """Each kind of fault occurs within these seeds."""
    missing = set(EVENTFUL)

    def listen(line: str) -> None:
        missing.difference_update([words for words in missing if words in line])

    for seed in SEEDS:
        run_seed(seed, kind="delivery", listener=listen)
    assert not missing
