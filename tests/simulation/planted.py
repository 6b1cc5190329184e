"""What a test expects of a planted bug: how soon it is found, and which invariants it breaks.

A world that fails for another reason does not count as a finding. For example, a patch may no longer fit klamm's code,
so that each world ends with an exception. So an exception counts only if it has the expected type and text.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from tests.simulation.run import Outcome, run_seed
from tests.simulation.violation import EXCEPTION

__all__ = ["OTHER", "OTHER_CLUSTER", "Planted", "assert_is_found", "assert_is_readable"]

OTHER = 0
"""Stands for a violation that has no number in the list of invariants."""

OTHER_CLUSTER = ("InconsistentDataDirectory: ", "KlammError: the metadata store belongs to cluster ")
"""How a broker's start fails if another broker has created the cluster once more."""


class Planted(NamedTuple):
    """The expectation of one bug."""

    seeds: int
    """The number of seeds within which the bug is found: about three times the longest run of seeds that did not find
    it."""
    invariants: tuple[int, ...]
    """The invariants of which one is broken."""
    exceptions: tuple[str, ...] = ()
    """The exceptions of which one may be raised instead, if the bug lets klamm itself fail: each is a part of the last
    line of a traceback, with the type and the text of the exception."""
    first: int = 1
    """The first seed: worlds in which a rare bug matters may be rare."""


def assert_is_found(kind: str, bug: str, expected: Planted) -> None:
    """Plants a bug, and asserts that the first failure of a world is one of the expected ones, with a readable
    report."""
    for seed in range(expected.first, expected.first + expected.seeds):
        outcome = run_seed(seed, kind=kind, bug=bug)
        if outcome.invariant is not None:
            assert _is_expected(outcome, expected), (
                f"{bug!r} breaks {_name(outcome.invariant)} instead of"
                f" {', '.join([*map(_name, expected.invariants), *map(repr, expected.exceptions)])}:\n{outcome.failure}"
            )
            assert_is_readable(outcome.failure)
            return
    pytest.fail(f"{bug!r} was not found")


def _is_expected(outcome: Outcome, expected: Planted) -> bool:
    if outcome.invariant != EXCEPTION:
        return outcome.invariant in expected.invariants
    found, _, _ = outcome.failure.partition("\nthe world:")
    raised = found.splitlines()[-1].strip()
    return any(each in raised for each in expected.exceptions)


def assert_is_readable(report: str) -> None:
    """Asserts that a report contains no address of an object, and that its length is bounded."""
    assert " at 0x" not in report
    lines = report.splitlines()
    assert max(map(len, lines)) < 450
    assert len(lines) < 200


def _name(invariant: int) -> str:
    return {EXCEPTION: "nothing (an exception)", OTHER: "another rule"}.get(invariant, f"I{invariant}")
