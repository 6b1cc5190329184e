from __future__ import annotations

import pytest

from klamm.config.alteration import Alteration, Operation, apply_alterations, check_alterations, check_sizes
from klamm.config.table import broker_keys, topic_keys
from klamm.protocol.errors import ErrorCode, KafkaError


@pytest.mark.parametrize(
    ("current", "alteration", "result"),
    [
        ({}, Alteration("retention.ms", Operation.SET, "5"), {"retention.ms": "5"}),
        ({"retention.ms": "5"}, Alteration("retention.ms", Operation.DELETE, None), {}),
        ({}, Alteration("retention.ms", Operation.DELETE, "ignored"), {}),
        ({}, Alteration("cleanup.policy", Operation.APPEND, "compact"), {"cleanup.policy": "delete,compact"}),
        (
            {"cleanup.policy": "compact"},
            Alteration("cleanup.policy", Operation.APPEND, "compact,delete,"),
            {"cleanup.policy": "compact,delete"},
        ),
        ({}, Alteration("cleanup.policy", Operation.SUBTRACT, "delete"), {"cleanup.policy": ""}),
        (
            {"cleanup.policy": "compact,delete"},
            Alteration("cleanup.policy", Operation.SUBTRACT, "other,compact"),
            {"cleanup.policy": "delete"},
        ),
    ],
)
def test_an_alteration_does_what_it_says(
    current: dict[str, str], alteration: Alteration, result: dict[str, str]
) -> None:
    """An operation on an unset list starts from the default, and removing an absent element has no effect."""
    assert apply_alterations(current, [alteration], topic_keys()) == result


def test_only_lists_can_be_appended_to() -> None:
    """Appending to a key that is no list, or to an unknown key, gets INVALID_CONFIG with Kafka's message."""
    for name in ("retention.ms", "unknown"):
        with pytest.raises(KafkaError) as refusal:
            apply_alterations({}, [Alteration(name, Operation.APPEND, "1")], topic_keys())
        assert refusal.value.code is ErrorCode.INVALID_CONFIG
        assert refusal.value.message == f"Can't APPEND to key {name} because its type is not LIST."
    with pytest.raises(KafkaError, match="Can't SUBTRACT to key num"):
        apply_alterations({}, [Alteration("num.io.threads", Operation.SUBTRACT, "1")], broker_keys())


@pytest.mark.parametrize(
    ("alterations", "message"),
    [
        ([Alteration("a", 0, "1"), Alteration("a", 1, None)], "Error due to duplicate config keys"),
        ([Alteration("a", 0, None), Alteration("b", 2, None)], "Null value not supported for : a, b"),
        ([Alteration("a", 4, "1")], "Unknown operations type 4"),
    ],
)
def test_a_wish_that_makes_no_sense_is_refused(alterations: list[Alteration], message: str) -> None:
    """A duplicate key, a missing value or an unknown operation gets INVALID_REQUEST before any key is looked up."""
    with pytest.raises(KafkaError) as refusal:
        check_alterations(alterations)
    assert (refusal.value.code, refusal.value.message) == (ErrorCode.INVALID_REQUEST, message)


def test_a_value_has_a_greatest_length() -> None:
    """A new value may have 32767 bytes at most; the size of an existing value is not checked again."""
    long = "x" * 32768
    check_sizes({"a": long}, {"a": long, "b": long[1:]})
    with pytest.raises(KafkaError, match="exceeds the maximum value size of 32767 bytes"):
        check_sizes({}, {"a": long})
