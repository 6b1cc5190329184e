"""Tests of the cost estimate of regular expressions."""

from __future__ import annotations

import pytest

from klamm.core.group.consumer.regex_cost import MAX_REGEX_COST, regex_cost


@pytest.mark.parametrize(
    "regex",
    [
        "orders.*",
        r"[a-z0-9._-]+\.(created|updated|deleted)\.v[1-9]",
        "|".join(f"some.topic.name-{number}" for number in range(300)),
        r"\p{Lu}\w{1,20}-(eu|us)-\d{1,3}",
        "",
    ],
)
def test_what_people_subscribe_by_costs_little_enough(regex: str) -> None:
    """Common regular expressions, including a long list of names, are below the cost limit."""
    assert regex_cost(regex) <= MAX_REGEX_COST


@pytest.mark.parametrize(
    "regex",
    [
        r"\pL{1000}",
        r"[\pL\pN]{1000}",
        "[^a]{1000}",
        "(?:(?:(?:.{10}){10}){10}){2}",
        "(a(b(c(d{10}){10}){10}){10})",
        "(?i)" + "k" * 4_000,
        "a{0,1000}" * 2,
        "a{1000,}" * 11,
        "a?" * 2_000,
        "a" * (MAX_REGEX_COST + 1),
        r"\Q[\E\pL{1000}",
        r"[]\pL]{1000}",
        r"[[:alpha:]\pL]{1000}",
        r"(?P<name>\pL){1000}",
        "\u00e9" * 2_001,
    ],
)
def test_what_takes_long_to_compile_costs_too_much(regex: str) -> None:
    """Regular expressions that are slow to compile are above the cost limit, in every notation."""
    assert regex_cost(regex) > MAX_REGEX_COST


@pytest.mark.parametrize("regex", ["(", ")", "{1}", "a{", "[", "[^]", "\\", "\\Qabc", r"\p{", "(?", "[[:"])
def test_what_is_not_valid_has_a_cost_too(regex: str) -> None:
    """The estimate also returns a cost for an invalid expression, which the compiler refuses later."""
    assert 0 <= regex_cost(regex) <= MAX_REGEX_COST


def test_repetition_multiplies_what_stands_before_it_only() -> None:
    """A repetition multiplies the cost of the last character of a word, or of the whole group before it."""
    assert regex_cost("abc{100}") < regex_cost("(abc){100}") < 3 * regex_cost("abc{100}") + 210
