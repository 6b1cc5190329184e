"""Tests of the transition table of a classic group."""

from __future__ import annotations

import pytest

from klamm.core.group.classic.classic_group import ClassicGroup
from klamm.core.group.classic.group_state import TRANSITIONS, GroupEvent, GroupState
from klamm.protocol.types import Millis

# Kafka's `ClassicGroupState.validPreviousStates`.
VALID_PREVIOUS_STATES = {
    GroupState.EMPTY: {GroupState.PREPARING_REBALANCE},
    GroupState.PREPARING_REBALANCE: {GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY},
    GroupState.COMPLETING_REBALANCE: {GroupState.PREPARING_REBALANCE},
    GroupState.STABLE: {GroupState.COMPLETING_REBALANCE},
    GroupState.DEAD: set(GroupState) - {GroupState.DEAD},
}


@pytest.mark.parametrize("target", GroupState)
def test_previous_states_are_those_of_kafka(target: GroupState) -> None:
    """A group enters each state from the same states as in Kafka, and from no other state."""
    assert {state for (state, _), reached in TRANSITIONS.items() if reached is target} == VALID_PREVIOUS_STATES[target]


def test_event_without_a_row_is_a_bug() -> None:
    """An event without a row in the transition table raises KeyError: an empty group cannot become stable."""
    group = ClassicGroup("orders", Millis(0))
    with pytest.raises(KeyError):
        group.move(GroupEvent.ASSIGNMENT_COMMITTED, Millis(1))


def test_transition_remembers_where_it_came_from_and_when() -> None:
    """A transition keeps the previous state and its time, since a rebalance that began in Empty is an initial one."""
    group = ClassicGroup("orders", Millis(0))
    group.move(GroupEvent.REBALANCE_STARTED, Millis(7))
    assert (group.state, group.previous_state) == (GroupState.PREPARING_REBALANCE, GroupState.EMPTY)
    assert group.state_timestamp_ms == 7
