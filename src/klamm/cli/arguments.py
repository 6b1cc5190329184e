"""Values on a command line: what they may look like. argparse turns what is raised here into exit status 2."""

from __future__ import annotations

import re
import time
from argparse import ArgumentTypeError
from datetime import datetime, timedelta
from typing import Final

__all__ = [
    "delimiter",
    "duration",
    "key_value",
    "listen_address",
    "natural_number",
    "partition_index",
    "since_ms",
    "timestamp_ms",
    "topic_partitions",
]

ISO_DURATION: Final = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
SHORT_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
UNITS: Final = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
HIGHEST_PORT: Final = 65_535
ESCAPES: Final = {r"\t": "\t", r"\n": "\n", r"\0": "\0", r"\\": "\\"}


def key_value(text: str) -> tuple[str, str]:
    """KEY=VALUE; the value may be empty and may hold further equals signs."""
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise ArgumentTypeError(f"takes KEY=VALUE, not {text!r}")
    return key, value


def natural_number(text: str) -> int:
    """A whole number from 1 on."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"takes a number from 1 on, not {text!r}")
    return int(text)


def partition_index(text: str) -> int:
    """A partition's index."""
    if not text.isdecimal():
        raise ArgumentTypeError(f"takes the number of a partition, not {text!r}")
    return int(text)


def topic_partitions(text: str) -> tuple[str, tuple[int, ...]]:
    """TOPIC or TOPIC:PARTITION,...; no partitions stands for all of them."""
    topic, separator, indexes = text.partition(":")
    if not topic or (separator and not all(index.isdecimal() for index in indexes.split(","))):
        raise ArgumentTypeError(f"takes TOPIC or TOPIC:PARTITION,..., not {text!r}")
    return topic, tuple(int(index) for index in indexes.split(",") if separator)


def listen_address(text: str) -> str:
    """HOST:PORT; the host may be empty, for every address, or an IPv6 address in brackets."""
    host, separator, port = text.rpartition(":")
    is_plain = ":" not in host or (host.startswith("[") and host.endswith("]"))
    if not separator or not is_plain or not port.isdecimal():
        raise ArgumentTypeError(f"takes HOST:PORT, not {text!r}")
    if int(port) > HIGHEST_PORT:
        raise ArgumentTypeError(f"takes a port from 0 to {HIGHEST_PORT}, not {port}")
    return text


def delimiter(text: str) -> bytes:
    r"""What stands between key and value: any text but none, with \t, \n, \0 and \\ for what is hard to type."""
    if not text:
        raise ArgumentTypeError("takes at least one character")
    return re.sub(r"\\[tn0\\]", lambda match: ESCAPES[match[0]], text).encode()


def timestamp_ms(text: str) -> int:
    """Milliseconds since the epoch of an ISO 8601 moment; local time unless it says otherwise."""
    try:
        moment = datetime.fromisoformat(text)
        return int(moment.astimezone().timestamp() * 1000)
    except (ValueError, OverflowError):
        raise ArgumentTypeError(
            f"{text!r} is no time: write 2026-01-31, 2026-01-31T12:00:00 or 2026-01-31T12:00:00+01:00"
        ) from None


def duration(text: str) -> timedelta:
    """A duration: 90s, 15m, 36h, 7d, or ISO 8601's PT36H as Kafka's tools take it."""
    short = SHORT_DURATION.fullmatch(text)
    iso = ISO_DURATION.fullmatch(text)
    try:
        if short is not None:
            return timedelta(**{UNITS[short[2]]: float(short[1])})
        if iso is not None and any(iso.groups()):
            days, hours, minutes, seconds = (float(part or 0) for part in iso.groups())
            return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    except OverflowError:
        pass
    raise ArgumentTypeError(f"{text!r} is no duration: write 90s, 15m, 36h, 7d or PT36H")


def since_ms(text: str) -> int:
    """Milliseconds since the epoch of a moment, or of that long ago: 2026-01-31T12:00:00, or 90s, 15m, 36h, 7d."""
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
