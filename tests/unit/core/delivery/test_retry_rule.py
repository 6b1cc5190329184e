"""Tests of the waits and the deadline of failed records."""

from __future__ import annotations

from typing import Any

import pytest

from klamm.core.delivery.retry_rule import Retry


def test_waits_grow_up_to_the_longest() -> None:
    """Each wait is twice as long as the one before; with `fixed` all waits are equal."""
    retry = Retry(10, first=0.1, most=0.5)
    assert [retry.delay_ms(failures) for failures in (1, 2, 3, 4, 1000)] == [100, 200, 400, 500, 500]
    assert Retry(backoff="fixed", first=2).delay_ms(7) == 2000


def test_the_deadline_counts_from_the_first_call() -> None:
    """Without a deadline there is no end."""
    assert Retry(deadline=1.5).deadline_ms(1000) == 2500
    assert Retry().deadline_ms(1000) is None


@pytest.mark.parametrize(
    "options", [{"attempts": 0}, {"backoff": "linear"}, {"first": -1}, {"most": -1}, {"deadline": 0}]
)
def test_wrong_rules_are_refused(options: dict[str, Any]) -> None:
    """The error names the option."""
    with pytest.raises(ValueError, match=next(iter(options))):
        Retry(**options)
