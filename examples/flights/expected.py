"""What the pipeline should write, computed by pandas from the file of flights, without topics and without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from examples.flights.data import load_table

if TYPE_CHECKING:
    import pandas

__all__ = ["ARRIVALS_COLUMNS", "DELAYS_COLUMNS", "expected_arrivals", "expected_delays"]

DELAYS_COLUMNS: Final = ["airport", "name", "day", "flights", "delay_minutes"]
ARRIVALS_COLUMNS: Final = [
    *("time", "carrier", "flight", "origin", "dest", "arr_delay"),
    *("destination", "wind_speed", "precip", "visib", "month"),
]


def expected_delays(flights: pandas.DataFrame) -> pandas.DataFrame:
    """Returns the flights that arrived and their minutes of delay, for each destination and day (UTC) of departure."""
    arrived = _arrived(flights)
    days = arrived["time"].dt.strftime("%Y-%m-%d")
    grouped = arrived.groupby([arrived["dest"].rename("airport"), days.rename("day")])["arr_delay"]
    sums = grouped.agg(flights="count", delay_minutes="sum").astype("int64").reset_index()
    names = load_table("airports")[["faa", "name"]].rename(columns={"faa": "airport"})
    return sums.merge(names, on="airport", how="left")[DELAYS_COLUMNS]


def expected_arrivals(flights: pandas.DataFrame) -> pandas.DataFrame:
    """Returns each flight that arrived, with the name of its destination and the weather at its departure."""
    import pandas

    arrived = _arrived(flights)
    arrived["hour"] = arrived["time"].dt.floor("h")
    arrived["month"] = arrived["time"].dt.strftime("%Y-%m")
    weather = load_table("weather")[["origin", "time_hour", "wind_speed", "precip", "visib"]]
    weather["hour"] = pandas.to_datetime(weather["time_hour"], utc=True)
    names = load_table("airports")[["faa", "name"]].rename(columns={"faa": "dest", "name": "destination"})
    joined = arrived.merge(names, on="dest", how="left").merge(weather, on=["origin", "hour"], how="left")
    return joined[ARRIVALS_COLUMNS]


def _arrived(flights: pandas.DataFrame) -> pandas.DataFrame:
    """Returns the flights that arrived, with a column `time` of their scheduled departure."""
    import pandas

    columns = ["timestamp_ms", "carrier", "flight", "origin", "dest", "arr_delay"]
    arrived = flights.loc[flights["arr_delay"].notna(), columns].copy()
    arrived["time"] = pandas.to_datetime(arrived["timestamp_ms"], unit="ms", utc=True)
    return arrived
