"""Tests what counts as the finding of a planted bug, and what a run says about worlds that are not in order again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest
from tests.simulation import __main__ as command
from tests.simulation.bugs import BUGS_OF
from tests.simulation.delivery.world import DeliveryWorld
from tests.simulation.planted import Planted, assert_is_found
from tests.simulation.run import Outcome
from tests.simulation.violation import EXCEPTION, Violation


def _find_bug_that_raises(error: Exception, *exceptions: str) -> None:
    """Plants a bug with which each world of workers ends with `error`, and expects I24, I25 or one of the
    exceptions."""

    @contextmanager
    def fail() -> Iterator[None]:
        with patch.object(DeliveryWorld, "run", side_effect=error):
            yield

    with patch.dict(BUGS_OF, {"delivery": {"a bug": fail}}):
        assert_is_found("delivery", "a bug", Planted(3, (24, 25), exceptions))


def test_a_bug_is_found_by_one_of_the_expected_invariants() -> None:
    """A violation of an expected invariant is a finding."""
    _find_bug_that_raises(Violation(25, "a record is repeated"))


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (Violation(26, "it does not end"), "breaks I26 instead of I24, I25"),
        (Violation(0, "it is told too much"), "breaks another rule"),
        (Violation(EXCEPTION, "a logged exception"), r"breaks nothing \(an exception\)"),
        (AttributeError("the patch does not fit any more"), r"breaks nothing \(an exception\)"),
    ],
)
def test_another_failure_is_no_finding(error: Exception, what: str) -> None:
    """A violation of another invariant, and an exception, fail the test of a planted bug."""
    with pytest.raises(AssertionError, match=what):
        _find_bug_that_raises(error)


def test_an_exception_is_found_by_its_type_and_its_text() -> None:
    """An exception is a finding if its type and text are the expected ones. An exception that quotes them only in an
    earlier line, because it was raised while the expected one was handled, is none."""
    expected = "KeyError: 'the record that is lost'"
    _find_bug_that_raises(KeyError("the record that is lost"), "ValueError: of another", expected)
    _find_bug_that_raises(Violation(EXCEPTION, f"a step has failed\nTraceback\n{expected}"), expected)
    for error in (
        KeyError("another record"),
        AttributeError("'LogReader' object has no attribute 'former'"),
        Violation(EXCEPTION, f"{expected}\nAttributeError: the patch does not fit any more"),
    ):
        with pytest.raises(AssertionError, match=r"breaks nothing \(an exception\)"):
            _find_bug_that_raises(error, expected)


def test_a_patch_that_can_not_be_applied_is_an_error() -> None:
    """A bug that patches a name that klamm does not have any more fails its test with an error, and is not found."""

    @contextmanager
    def outdated() -> Iterator[None]:
        with patch.object(DeliveryWorld, "a_name_of_earlier_days", None):
            yield

    with (
        patch.dict(BUGS_OF, {"delivery": {"a bug": outdated}}),
        pytest.raises(AttributeError, match="a_name_of_earlier_days"),
    ):
        assert_is_found("delivery", "a bug", Planted(3, (24, 25), ("AttributeError",)))


@pytest.mark.parametrize(("kind", "bug"), [(kind, bug) for kind, bugs in BUGS_OF.items() for bug in sorted(bugs)])
def test_each_bug_can_be_planted(kind: str, bug: str) -> None:
    """klamm still has all names that the planted bugs patch."""
    with BUGS_OF[kind][bug]():
        pass


@pytest.mark.parametrize(
    ("settled", "unsettled", "code"), [(100, 0, 0), (90, 10, 0), (70, 30, 1), (0, 100, 1), (0, 1, 0), (0, 0, 0)]
)
def test_a_run_fails_if_too_many_worlds_do_not_settle(
    capsys: pytest.CaptureFixture[str], settled: int, unsettled: int, code: int
) -> None:
    """A run ends with status 1 if more than a fifth of its worlds with unlimited faults are not in order again. A few
    worlds say nothing about the share."""
    endings = [*[True] * settled, *[False] * unsettled, None]
    outcomes = [Outcome(seed, 1, 1.0, 0, has_settled=ending) for seed, ending in enumerate(endings)]
    arguments = ["tests.simulation", "--world", "replicas", "--processes", "1"]
    with patch.object(command, "run_seeds", lambda *_, **__: outcomes), patch.object(sys, "argv", arguments):
        assert command.main() == code
    said = capsys.readouterr().out
    assert ("more than 20% did not settle" in said) is bool(code)
    if settled or unsettled:
        assert f"{unsettled} of {settled + unsettled} did not settle in the end" in said
