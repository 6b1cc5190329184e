"""Tests of the number of members that a group needs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.slices import finish

from klamm.core.group.assignors import members_needed as module
from klamm.core.group.assignors.members_needed import members_needed

MINUTE = 60_000


def needed_of(loads: Sequence[tuple[float, int]], consumption_rate: float, target_lag: int = 0) -> int | None:
    """Runs all steps of `members_needed` at once; each load is an arrival rate and a lag."""
    rates, lags = [rate for rate, _ in loads], [lag for _, lag in loads]
    return finish(members_needed(rates, lags, consumption_rate, target_lag, MINUTE))


@pytest.mark.parametrize(
    ("loads", "consumption_rate", "target_lag", "expected"),
    [
        pytest.param([(100, 0)] * 12, 300, 0, 4, id="arrival alone"),
        pytest.param([(0, 6_000)] * 12, 300, 0, 4, id="lag alone: 100 records a second for a minute"),
        pytest.param([(0, 6_000)] * 12, 300, 36_000, 2, id="half of the lag may stay"),
        pytest.param([(0, 6_000)] * 12, 300, 100_000, 1, id="less lag than may be"),
        pytest.param([(100, 6_000)] * 12, 300, 0, 12, id="both, and no two partitions fit in one member"),
        pytest.param([(1000, 0), (10, 0), (10, 0)], 300, 0, 2, id="one partition is too much for anyone"),
        pytest.param([(1000, 0)] * 3, 300, 0, 3, id="never more members than partitions"),
        pytest.param([(0, 0)] * 3, 300, 0, 1, id="an idle group needs one"),
        pytest.param([(300, 0), (0, 0)], 300, 0, 1, id="an idle partition needs nobody of its own"),
        pytest.param([], 300, 0, 0, id="no partitions"),
        pytest.param([(100, 0)], 0, 0, None, id="nobody knows how fast a member is"),
        pytest.param([(-1, -1)], 300, 0, 1, id="figures from before a truncation"),
    ],
)
def test_members_needed(
    loads: list[tuple[float, int]], consumption_rate: float, target_lag: int, expected: int | None
) -> None:
    """The needed members can process the arriving records, and the lag above the target within the given time."""
    assert needed_of(loads, consumption_rate, target_lag) == expected


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 100_000)), min_size=1, max_size=40), st.integers(1, 2000)
)
def test_between_the_sum_and_the_partitions(figures: list[tuple[int, int]], consumption_rate: int) -> None:
    """The result is at least the capped sum of demands over the consumption rate, and at most the partition count."""
    needed = needed_of(figures, consumption_rate)
    assert needed is not None
    assert 1 <= needed <= len(figures)
    demand = sum(min(rate + lag / 60, consumption_rate) for rate, lag in figures)
    assert needed >= demand / consumption_rate - 1e-6


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 100_000)), min_size=7, max_size=40), st.integers(1, 2000)
)
def test_steps_change_nothing(figures: list[tuple[int, int]], consumption_rate: int) -> None:
    """The result is the same whether the partitions are processed all at once or a few at a time."""
    whole = needed_of(figures, consumption_rate)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_PARTITIONS_AT_ONCE", 3)
        rates, lags = [rate for rate, _ in figures], [lag for _, lag in figures]
        steps = list(members_needed(rates, lags, consumption_rate, 0, MINUTE))
        assert len(steps) >= 2
        assert needed_of(figures, consumption_rate) == whole
