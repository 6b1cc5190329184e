"""Prints rows as an aligned table, JSON, or tab-separated values."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["add_output_option", "drop_output", "id_list", "new_console", "say", "show_rows", "tsv_cell"]

_WIDEST_WITHOUT_TERMINAL: Final = 10_000
_TSV_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def add_output_option(parser: argparse.ArgumentParser) -> None:
    """Adds -o."""
    parser.add_argument(
        "-o",
        "--output",
        choices=("table", "json", "tsv"),
        default="table",
        help="how to show the result (default table)",
    )


def drop_output() -> None:
    """Drops all further output, after the reader of the pipe has closed it: the interpreter's flush at exit must not
    fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def show_rows(arguments: argparse.Namespace, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Prints rows in the order of `columns`; None is `none` in a table, empty in TSV, null in JSON."""
    if arguments.output == "json":
        print(json.dumps([{column: row.get(column) for column in columns} for row in rows], indent=2))
    elif arguments.output == "tsv":
        print("\t".join(columns))
        for row in rows:
            print("\t".join(tsv_cell(row.get(column), "") for column in columns))
    else:
        _show_table(columns, rows)


def tsv_cell(value: Any, null: str) -> str:
    r"""Returns one cell of a tab-separated line, with tab, line ends and backslash as \t, \n, \r and \\."""
    return null if value is None else str(value).translate(_TSV_ESCAPES)


def id_list(brokers: Iterable[int] | None) -> str | None:
    """Returns the ids of brokers as one cell, `1,2,3`; None stays None."""
    return None if brokers is None else ",".join(map(str, brokers))


def say(arguments: argparse.Namespace, text: str) -> None:
    """Prints a message for people: on stderr if stdout is for machines (JSON or TSV)."""
    print(text, file=sys.stdout if arguments.output == "table" else sys.stderr)


def _show_table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        is_number = all(isinstance(row.get(column), int | float | None) for row in rows)
        table.add_column(
            column.upper().replace("_", " "), justify="right" if rows and is_number else "left", overflow="fold"
        )
    for row in rows:
        table.add_row(*("none" if row.get(column) is None else str(row[column]) for column in columns))
    new_console().print(table)


def new_console() -> Console:
    """Returns a console on standard output, as wide as the terminal. Without a terminal, it does not wrap lines."""
    from rich.console import Console

    class PlainConsole(Console):
        def on_broken_pipe(self) -> None:
            """Leaves the error to `main`, as of `print`. The method of rich ends the process with status 1."""
            raise  # noqa: PLE0704  # rich calls this in the handler of the error

    console = PlainConsole(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = _WIDEST_WITHOUT_TERMINAL
    return console
