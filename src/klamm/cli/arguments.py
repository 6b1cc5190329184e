"""Parses the values of options. argparse turns the ArgumentTypeErrors into exit status 2."""

from __future__ import annotations

import re
import time
from argparse import ArgumentTypeError
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

__all__ = [
    "delimiter",
    "duration",
    "key_value",
    "listen_address",
    "metrics_address",
    "natural_number",
    "number_up_to",
    "partition_index",
    "since_ms",
    "timestamp_ms",
    "topic_partitions",
]

_ISO_DURATION: Final = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
_SHORT_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNITS: Final = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_HIGHEST_PORT: Final = 65_535
_LARGEST_INDEX: Final = 2**31 - 1
_ESCAPES: Final = {r"\t": "\t", r"\n": "\n", r"\0": "\0", r"\\": "\\"}


def key_value(text: str) -> tuple[str, str]:
    """Parses KEY=VALUE. The value may be empty and may contain equals signs."""
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise ArgumentTypeError(f"takes KEY=VALUE, not {text!r}")
    return key, value


def natural_number(text: str) -> int:
    """Parses an integer of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"takes a number from 1 on, not {text!r}")
    return int(text)


def number_up_to(most: int) -> Callable[[str], int]:
    """Returns the parser of an integer from 1 to `most`."""

    def parse(text: str) -> int:
        number = natural_number(text)
        if number > most:
            raise ArgumentTypeError(f"takes a number up to {most}, not {text}")
        return number

    return parse


def partition_index(text: str) -> int:
    """Parses a partition's index."""
    if not _is_index(text):
        raise ArgumentTypeError(f"takes the number of a partition, not {text!r}")
    return int(text)


def topic_partitions(text: str) -> tuple[str, tuple[int, ...]]:
    """Parses TOPIC or TOPIC:PARTITION,.... No partitions means all of them."""
    topic, separator, indexes = text.partition(":")
    if not topic or (separator and not all(map(_is_index, indexes.split(",")))):
        raise ArgumentTypeError(f"takes TOPIC or TOPIC:PARTITION,..., not {text!r}")
    return topic, tuple(int(index) for index in indexes.split(",") if separator)


def _is_index(text: str) -> bool:
    """Returns whether the text is an index of the protocol, whose indexes are 32-bit integers."""
    return text.isdecimal() and int(text) <= _LARGEST_INDEX


def listen_address(text: str) -> str:
    """Checks HOST:PORT. An empty host means every address; an IPv6 address stands in brackets."""
    host, separator, port = text.rpartition(":")
    is_plain = ":" not in host or (host.startswith("[") and host.endswith("]"))
    if not separator or not is_plain or not port.isdecimal():
        raise ArgumentTypeError(f"takes HOST:PORT, not {text!r}")
    if int(port) > _HIGHEST_PORT:
        raise ArgumentTypeError(f"takes a port from 0 to {_HIGHEST_PORT}, not {port}")
    return text


def metrics_address(text: str) -> tuple[str, int]:
    """Parses PORT or HOST:PORT; the host is 127.0.0.1 without one."""
    _, colon, _ = text.rpartition(":")
    host, _, port = listen_address(text if colon else f"127.0.0.1:{text}").rpartition(":")
    return host.strip("[]"), int(port)


def delimiter(text: str) -> bytes:
    r"""Parses the delimiter between key and value: a text that is not empty, with the escapes \t, \n, \0 and \\."""
    if not text:
        raise ArgumentTypeError("takes at least one character")
    return re.sub(r"\\[tn0\\]", lambda match: _ESCAPES[match[0]], text).encode()


def timestamp_ms(text: str) -> int:
    """Parses an ISO 8601 time to milliseconds since the epoch. A time without an offset is local time."""
    try:
        moment = datetime.fromisoformat(text)
        return int(moment.astimezone().timestamp() * 1000)
    except (ValueError, OverflowError):
        raise ArgumentTypeError(
            f"{text!r} is no time: write 2026-01-31, 2026-01-31T12:00:00 or 2026-01-31T12:00:00+01:00"
        ) from None


def duration(text: str) -> timedelta:
    """Parses a duration: 90s, 15m, 36h, 7d, or ISO 8601's PT36H as in Kafka's tools."""
    short = _SHORT_DURATION.fullmatch(text)
    iso = _ISO_DURATION.fullmatch(text)
    try:
        if short is not None:
            return timedelta(**{_UNITS[short[2]]: float(short[1])})
        if iso is not None and any(iso.groups()):
            days, hours, minutes, seconds = (float(part or 0) for part in iso.groups())
            return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    except OverflowError:
        pass
    raise ArgumentTypeError(f"{text!r} is no duration: write 90s, 15m, 36h, 7d or PT36H")


def since_ms(text: str) -> int:
    """Parses a time (2026-01-31T12:00:00) or a time span before now (90s, 15m, 36h) to milliseconds since the epoch."""
    try:
        ago = duration(text)
    except ArgumentTypeError:
        pass
    else:
        return max(0, time.time_ns() // 1_000_000 - ago // timedelta(milliseconds=1))
    try:
        return timestamp_ms(text)
    except ArgumentTypeError:
        raise ArgumentTypeError(
            f"{text!r} is neither a time such as 2026-01-31T12:00:00 nor a duration such as 15m, 36h or 7d"
        ) from None
