"""Moments and durations as people write them on a command line."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final

from klamm.errors import KlammError

__all__ = ["duration", "timestamp_ms"]

ISO_DURATION: Final = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
SHORT_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
UNITS: Final = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def timestamp_ms(text: str) -> int:
    """Milliseconds since the epoch of an ISO 8601 moment; local time unless it says otherwise.

    Raises KlammError.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise KlammError(
            f"{text!r} is no time: write 2026-01-31, 2026-01-31T12:00:00 or 2026-01-31T12:00:00+01:00"
        ) from None
    return int(moment.astimezone().timestamp() * 1000)


def duration(text: str) -> timedelta:
    """A duration: 90s, 15m, 36h, 7d, or ISO 8601's PT36H as Kafka's tools take it.

    Raises KlammError.
    """
    short = SHORT_DURATION.fullmatch(text)
    if short is not None:
        return timedelta(**{UNITS[short[2]]: float(short[1])})
    iso = ISO_DURATION.fullmatch(text)
    if iso is not None and any(iso.groups()):
        days, hours, minutes, seconds = (float(part or 0) for part in iso.groups())
        return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    raise KlammError(f"{text!r} is no duration: write 90s, 15m, 36h, 7d or PT36H")
