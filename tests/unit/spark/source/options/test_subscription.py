"""Tests what a query reads: topics, partitions, or a pattern of topic names."""

from __future__ import annotations

import pickle

import pytest

from klamm.spark.source.errors import OptionError
from klamm.spark.source.options.subscription import parse_subscription


@pytest.mark.parametrize(
    ("pattern", "fitting", "other"),
    [
        ("fl", ["flights", "a-fl"], ["rain"]),
        ("^fl.*s$", ["flights"], ["flight", "a-flights"]),
        (" [a-c]1|x ", ["b1", "x"], ["d1"]),
        ("(?<place>eu|us)-.+", ["eu-1"], ["asia-1"]),
        ("(?<!old-)rain", ["rain"], ["old-rain"]),
        ("a++b", ["aab"], ["b"]),
    ],
)
def test_a_pattern_is_found_anywhere_in_a_name(pattern: str, fitting: list[str], other: list[str]) -> None:
    """A pattern matches anywhere in a topic name, as in Spark with Java's expressions; a pickled copy does the same."""
    subscription = pickle.loads(pickle.dumps(parse_subscription({"subscribepattern": pattern})))

    assert all(map(subscription.fits, fitting))
    assert not any(map(subscription.fits, other))


@pytest.mark.parametrize(
    ("pattern", "fitting", "other"),
    [
        (r"^[\[a]+$", ["[a"], ["b"]),
        ("^[]a]+$", ["]a"], ["b"]),
        ("^[^]a]+$", ["b"], ["]", "a"]),
        (r"^[a\]b]+$", ["]b"], ["c"]),
        (r"^[&]&&[a&b]\[[\\]$", ["&&&a[\\"], ["&"]),
    ],
)
def test_brackets_that_mean_themselves_are_taken(pattern: str, fitting: list[str], other: list[str]) -> None:
    """Literal brackets are accepted, after a backslash or as the first character of a set, as in Java."""
    subscription = parse_subscription({"subscribepattern": pattern})

    assert all(map(subscription.fits, fitting))
    assert not any(map(subscription.fits, other))


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        r"\Qa.b\E",
        r"\p{Alpha}",
        "a(?i)b",
        "[[a]b]",
        "[a-c[x-z]]",
        "[^[ab]]",
        "[][a]]",
        r"\[[\]a[b]]",
        "[a-z&&[^b]]",
        "[a-z&&^b]",
        "[&&a]",
        "[^&&a]",
    ],
)
def test_what_means_something_else_in_python_is_refused(pattern: str) -> None:
    """A pattern with a different meaning in Java and Python is refused."""
    with pytest.raises(OptionError, match="Python's regular expressions"):
        parse_subscription({"subscribepattern": pattern})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "One of the following options must be specified for Kafka source: subscribe, subscribepattern, assign"),
        ({"subscribe": "a", "subscribepattern": "a"}, "Only one of the following options"),
        ({"subscribepattern": "  "}, "Pattern to subscribe is empty as specified value for option 'subscribePattern'"),
        ({"assign": "a:0"}, "No topicpartitions to assign as specified value for option 'assign' is 'a:0'"),
        ({"assign": '{"a":0}'}, "Expected e.g."),
        ({"assign": "{}"}, "No topicpartitions"),
    ],
)
def test_one_thing_has_to_be_subscribed_to(given: dict[str, str], message: str) -> None:
    """Exactly one kind of subscription is required; the error texts are those of Spark's source."""
    with pytest.raises(OptionError, match=message):
        parse_subscription(given)
