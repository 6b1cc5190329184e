"""Parses, formats and checks the values of settings, with the types and ranges of Kafka's `ConfigDef`.

Texts are parsed as in Java (no underscores in numbers, `true` in any case, lists split at commas and surrounding
blanks). Error messages are Kafka's, because they are sent to clients.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from klamm.config.errors import InvalidValue

__all__ = ["Check", "Value", "check_value", "parse_list", "parse_value", "value_text"]

Value: TypeAlias = bool | int | float | str | tuple[str, ...] | None
Check: TypeAlias = Sequence[object]
"""A rule: its name, then its operands, as `tools/dump_kafka_configs` writes it."""

_INTEGER_BITS: Final = {"SHORT": 16, "INT": 32, "LONG": 64}
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_DOUBLE: Final = re.compile(r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[dDfF]?)")
_COMMA: Final = re.compile(r"\s*,\s*")
_THROTTLED_REPLICA: Final = re.compile(r"([0-9]+:[0-9]+)?")
_ISO_DURATION: Final = re.compile(
    r"[+]?P(?=[0-9T])(?:[0-9]+D)?(?:T(?=[0-9])(?:[0-9]+H)?(?:[0-9]+M)?(?:[0-9]+(?:\.[0-9]{1,9})?S)?)?", re.IGNORECASE
)
# Java's String.trim removes all characters up to the blank (U+0020).
_BLANKS: Final = "".join(map(chr, range(33)))


def parse_value(name: str, text: str, kind: str) -> Value:
    """Parses `text` as a value; `kind` is one of Kafka's types (`INT`, `LIST`, `PASSWORD`, ...).

    Raises InvalidValue with the message of Kafka's `ConfigDef.parseType`.
    """
    trimmed = text.strip(_BLANKS)
    if kind == "BOOLEAN":
        if trimmed.lower() not in {"true", "false"}:
            raise InvalidValue(name, text, "Expected value to be either true or false")
        return trimmed.lower() == "true"
    if kind in _INTEGER_BITS:
        limit = 1 << (_INTEGER_BITS[kind] - 1)
        # The length is checked before int(), which takes long for a million digits.
        if not _INTEGER.fullmatch(trimmed) or len(trimmed) > 64 or not -limit <= int(trimmed) < limit:
            raise InvalidValue(name, text, f"Not a number of type {kind}")
        return int(trimmed)
    if kind == "DOUBLE":
        if not _DOUBLE.fullmatch(trimmed):
            raise InvalidValue(name, text, "Not a number of type DOUBLE")
        return float(trimmed if trimmed.endswith(("NaN", "Infinity")) else trimmed.rstrip("dDfF"))
    if kind == "LIST":
        return parse_list(text)
    # STRING, PASSWORD and CLASS: the name of a Java class stays a text.
    return trimmed


def parse_list(text: str) -> tuple[str, ...]:
    """Returns the items of a list without duplicates."""
    trimmed = text.strip(_BLANKS)
    return tuple(dict.fromkeys(_COMMA.split(trimmed))) if trimmed else ()


def value_text(value: Value) -> str | None:
    """Returns the text that Kafka shows for a value (`ConfigDef.convertToString`)."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return _double_text(value) if isinstance(value, float) else str(value)


def check_value(name: str, value: Value, check: Check) -> None:
    """Raises InvalidValue, with the message of Kafka's validators, if `value` violates the rule `check`."""
    rule, *operands = check
    _RULES[str(rule)](name, value, *operands)


def _check_choice(name: str, value: Value, choices: object) -> None:
    if value not in _strings(choices):
        raise InvalidValue(name, value_text(value), f"String must be one of: {', '.join(_strings(choices))}")


def _check_choice_ignoring_case(name: str, value: Value, choices: object) -> None:
    if str(value).upper() not in _strings(choices):
        listed = ", ".join(_strings(choices))
        raise InvalidValue(name, value_text(value), f"String must be one of (case insensitive): {listed}")


def _check_not_empty(name: str, value: Value) -> None:
    if value == "":
        raise InvalidValue(name, "", "String must be non-empty")


def _check_not_null(name: str, value: Value) -> None:
    if value is None:
        raise InvalidValue(name, None, "entry must be non null")


def _check_gzip_level(name: str, value: Value) -> None:
    if not isinstance(value, int) or not (1 <= value <= 9 or value == -1):
        raise InvalidValue(name, value_text(value), "Value must be between 1 and 9 or equal to -1")


def _strings(choices: object) -> list[str]:
    assert isinstance(choices, list)
    return choices


def _check_range(name: str, value: Value, lowest: object = None, highest: object = None) -> None:
    if value is None:
        raise InvalidValue(name, None, "Value must be non-null")
    assert isinstance(value, (int, float))
    if isinstance(lowest, (int, float)) and value < lowest:
        raise InvalidValue(name, value_text(value), f"Value must be at least {value_text(lowest)}")
    if isinstance(highest, (int, float)) and value > highest:
        raise InvalidValue(name, value_text(value), f"Value must be no more than {value_text(highest)}")


def _check_finite(name: str, value: Value, lowest: float) -> None:
    """Refuses NaN, infinity and values below `lowest`. klamm's own rule: Kafka's range accepts NaN, as in Java."""
    assert isinstance(value, float)
    if not math.isfinite(value):
        raise InvalidValue(name, value_text(value), "Value must be finite")
    _check_range(name, value, lowest)


def _check_list(
    name: str, value: Value, valid: object, is_empty_allowed: object = True, is_null_allowed: object = False
) -> None:
    choices = _strings(valid)
    if value is None:
        if is_null_allowed:
            return
        raise InvalidValue.saying(f"Configuration '{name}' values must not be null.")
    assert isinstance(value, tuple)
    if not value and not is_empty_allowed:
        allowed = f"[{', '.join(choices)}]" if choices else "any non-empty value"
        raise InvalidValue.saying(f"Configuration '{name}' must not be empty. Valid values include: {allowed}")
    for item in value:
        if not item:
            raise InvalidValue.saying(f"Configuration '{name}' values must not be empty.")
        if choices and item not in choices:
            raise InvalidValue(name, item, f"String must be one of: {', '.join(choices)}")


def _check_by_code(name: str, value: Value, validator: object) -> None:
    """Applies Kafka's validators for single keys; those of the quorum's keys have no effect, as klamm has no quorum."""
    if validator == "ThrottledReplicaListValidator":
        assert isinstance(value, tuple)
        replicas = [item.strip() for item in value]
        if not all(map(_THROTTLED_REPLICA.fullmatch, replicas)) and "".join(replicas) != "*":
            form = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
            reason = f"{name} must be the literal '*' or a list of replicas in the following format: {form}"
            raise InvalidValue(name, f"[{', '.join(value)}]", reason)
    elif validator == "ShareGroupAutoOffsetResetStrategy$Validator":
        text = str(value)
        head, _, duration = text.partition(":")
        is_duration = head.lower() == "by_duration" and _ISO_DURATION.fullmatch(duration) is not None
        if text.lower() not in {"earliest", "latest"} and not is_duration:
            allowed = "'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'"
            reason = f"Invalid value `{text}` for configuration {name}. The value must be either {allowed}."
            raise InvalidValue(name, text, reason)


_RULES: Final[dict[str, Callable[..., None]]] = {
    "range": _check_range,
    "finite": _check_finite,
    "one_of": _check_choice,
    "one_of_ignoring_case": _check_choice_ignoring_case,
    "list_of": _check_list,
    "non_empty": _check_not_empty,
    "non_null": _check_not_null,
    "gzip_level": _check_gzip_level,
    "code": _check_by_code,
}


def _double_text(value: float) -> str:
    """Formats as Java's `Double.toString`: plain digits from 0.001 to 10,000,000, else a mantissa and `E`."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value) if "e" not in repr(value) else f"{value:.17f}".rstrip("0")
    sign, digits, exponent = ("-" if value < 0 else ""), *_shortest_digits(abs(value))
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _shortest_digits(value: float) -> tuple[str, int]:
    """Returns the fewest significant digits that parse as `value`, and the exponent of the first digit."""
    mantissa, _, exponent = f"{value:e}".partition("e")
    for precision in range(17):
        text = f"{value:.{precision}e}"
        if float(text) == value:
            mantissa, _, exponent = text.partition("e")
            break
    return mantissa.replace(".", ""), int(exponent)
