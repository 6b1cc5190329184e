"""Tests a few worlds of several brokers in every test run; `make sim` runs any number of worlds."""

from __future__ import annotations

import pytest
from tests.simulation.run import run_seed

# A test with several worlds may take long on a slow machine.
pytestmark = pytest.mark.timeout(900)

SEEDS = range(1, 7)


@pytest.mark.parametrize("seed", SEEDS)
def test_invariants_of_clusters_hold(seed: int) -> None:
    """I1, I3 to I6, I8 to I12, I17 and I26 hold for the clients of several brokers in the world of this seed."""
    outcome = run_seed(seed, kind="cluster")
    assert outcome.is_ok, outcome.failure
