"""Tests suggestions for mistyped names."""

from __future__ import annotations

import pytest

from klamm.config.nearest import nearest, suggestion
from klamm.config.table import broker_keys


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("num.partition", "num.partitions"),
        ("log.retenton.ms", "log.retention.ms"),
        ("retention.ms", "log.retention.ms"),
        ("klamm.fysnc", "klamm.fsync"),
        ("auto.create.topics", "auto.create.topics.enable"),
        ("zookeeper.connect", None),
        ("foo", None),
    ],
)
def test_a_key_of_a_broker_may_be_mistyped(name: str, meant: str | None) -> None:
    """A mistyped key gets the most similar key as a suggestion, or none if no key is similar."""
    assert nearest(name, broker_keys()) == meant


def test_a_suggestion_is_a_question() -> None:
    """A suggestion is a question to append to the name, or an empty text if there is no suggestion."""
    assert suggestion("--data-dri", ["--data-dir", "--listen"]) == " (did you mean --data-dir?)"
    assert suggestion("castle", ["--data-dir", "--listen"]) == ""
