"""Parsers of option values. They raise `OptionError`, which names the option, for an invalid value."""

from __future__ import annotations

import re
from typing import Final

from klamm.protocol.types import Millis
from klamm.spark.source.errors import OptionError

__all__ = ["parse_duration_ms", "parse_positive", "parse_timestamp_ms", "parse_truth", "parse_whole", "parse_word"]

_TRUTH: Final = {"true": True, "false": False}
_MAXIMUM_LONG: Final = 2**63 - 1
_DURATION: Final = re.compile(r"(-?[0-9]+)([a-z]+)?")
# The units of `JavaUtils.timeStringAs` in Spark.
_UNIT_MS: Final = {
    None: 1,
    "us": 0.001,
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


def parse_truth(option: str, text: str) -> bool:
    """Parses true or false, in any case."""
    if text.strip().lower() not in _TRUTH:
        raise OptionError(f"{option}={text}: it is true or false")
    return _TRUTH[text.strip().lower()]


def parse_positive(option: str, text: str) -> int:
    """Parses a whole number above 0."""
    number = _whole(text)
    if number is None or number <= 0:
        raise OptionError(f"{option}={text}: it is a positive whole number; {option} must be positive")
    return number


def parse_whole(option: str, text: str) -> int:
    """Parses a whole number, 0 or above."""
    number = _whole(text)
    if number is None or number < 0:
        raise OptionError(f"{option}={text}: it is a whole number")
    return number


def parse_timestamp_ms(option: str, text: str) -> Millis:
    """Parses milliseconds since 1970, 0 or above."""
    number = _whole(text)
    if number is None or number < 0:
        raise OptionError(f"{option}: Expected a single long value, got {text.strip()} (milliseconds since 1970)")
    return Millis(number)


def parse_duration_ms(option: str, text: str) -> int:
    """Parses a duration in Spark's form into milliseconds: `50s`, `100ms`, `15m`; a number alone is milliseconds."""
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None or match[2] not in _UNIT_MS:
        raise OptionError(
            f"{option}={text}: Time must be specified as seconds (s), milliseconds (ms), microseconds (us), "
            "minutes (m or min), hour (h), or day (d). E.g. 50s, 100ms, or 250us."
        )
    return int(int(match[1]) * _UNIT_MS[match[2]])


def parse_word(option: str, text: str, *words: str) -> str:
    """Parses one of these words, in any case."""
    word = text.strip().lower()
    if word not in words:
        raise OptionError(f"{option}={text}: it is {', '.join(words[:-1])} or {words[-1]}")
    return word


def _whole(text: str) -> int | None:
    try:
        number = int(text.strip())
    except ValueError:
        return None
    return number if abs(number) <= _MAXIMUM_LONG else None
