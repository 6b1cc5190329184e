"""Compares what the pipeline has written with what pandas computes, and says it in lines that a newcomer reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from examples.flights.data import Flight
from examples.flights.outcome import DeadLetter

if TYPE_CHECKING:
    import pandas

__all__ = ["compare", "compare_dead_letters", "compare_handled", "show_most_delayed"]

SHOWN_CHARACTERS: Final = 62


def compare(what: str, rows: str, found: pandas.DataFrame, expected: pandas.DataFrame) -> bool:
    """Prints whether both tables have the same rows, each as often as the other. Returns whether they do.

    `what` names the place of `found`, `rows` what its rows are.
    """
    agrees = bool(_sorted(found, expected).equals(_sorted(expected, expected)))
    print(f"{what}: {len(found):,} {rows}, ", end="")
    if agrees:
        print("exactly those that pandas computes from the file of flights")
    else:
        print(f"DIFFERENT from the {len(expected):,} that pandas computes from the file of flights")
    return agrees


def compare_dead_letters(what: str, found: list[DeadLetter], damaged: list[Flight]) -> bool:
    """Prints the dead letters with their reasons. Returns whether they are exactly the damaged records."""
    agrees = sorted(letter.value for letter in found) == sorted(flight.value for flight in damaged)
    are = "exactly the records" if agrees else f"DIFFERENT from the {len(damaged):,} records"
    print(f"{what}: {len(found):,} dead letter{'' if len(found) == 1 else 's'}, {are} that were damaged on purpose:")
    for letter in found:
        text = letter.value.decode(errors="replace")
        print(f"  {letter.origin}: {letter.reason}")
        print(f"    {'…' if len(text) > SHOWN_CHARACTERS else ''}{text[-SHOWN_CHARACTERS:]}")
    return agrees


def compare_handled(what: str, handled: Counter[tuple[int, int]], ends: Sequence[int]) -> bool:
    """Prints how many records the queue's members have handled. Returns whether they are all records of the topic, each
    at least once.

    `ends` has the end offset of each partition, which begins at 0.
    """
    records = {(partition, offset) for partition, end in enumerate(ends) for offset in range(end)}
    agrees = handled.keys() == records
    again = sum(times > 1 for times in handled.values())
    are = "exactly those" if agrees else f"DIFFERENT from the {len(records):,}"
    print(f"{what}: {len(handled):,} records handled, {are} of the topic; {again:,} of them again after the kill")
    return agrees


def show_most_delayed(found: pandas.DataFrame, expected: pandas.DataFrame) -> None:
    """Prints the ten most delayed airports, by the pipeline and by pandas."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="The ten most delayed airports of 2013, mean delay on arrival", title_justify="left")
    for column in ("airport", "flights", "the pipeline, from its topic", "pandas, from the file"):
        table.add_column(column, justify="left" if column == "airport" else "right")
    by_pipeline, by_pandas = _means(found), _means(expected)
    for airport, (flights, mean) in by_pandas.head(10)[["flights", "mean"]].iterrows():
        table.add_row(
            str(airport),
            f"{flights:,.0f}",
            f"{by_pipeline['mean'].get(airport, float('nan')):.2f} min",
            f"{mean:.2f} min",
        )
    Console().print(table)


def _means(days: pandas.DataFrame) -> pandas.DataFrame:
    """Returns flights and mean delay of each airport, the most delayed first."""
    sums = days.groupby("airport")[["flights", "delay_minutes"]].sum()
    sums["mean"] = sums["delay_minutes"] / sums["flights"]
    return sums.sort_values("mean", ascending=False)


def _sorted(table: pandas.DataFrame, like: pandas.DataFrame) -> pandas.DataFrame:
    """Returns the rows in the order of all their columns, with the types of `like`."""
    typed = table[[*like.columns]].astype(like.dtypes.to_dict())
    texts = typed.select_dtypes(object).columns
    typed[texts] = typed[texts].fillna("")
    return typed.sort_values([*like.columns], ignore_index=True)
