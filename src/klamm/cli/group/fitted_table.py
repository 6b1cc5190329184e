"""A table with one line per row. In a narrow terminal it truncates texts, but no numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from rich.cells import cell_len
from rich.table import Table

__all__ = ["Column", "fitted_table"]

_GAP: Final = 2
_LEAST: Final = 8


class Column(NamedTuple):
    """A column. Texts may be truncated; numbers are aligned right and never truncated."""

    heading: str
    is_number: bool = False


def fitted_table(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> Table:
    """Returns the table, at most `width` wide if the numbers leave eight characters for each text column."""
    widths = [
        max(cell_len(text) for text in (column.heading, *(row[index] for row in rows)))
        for index, column in enumerate(columns)
    ]
    texts = [index for index, column in enumerate(columns) if not column.is_number]
    excess = sum(widths) + _GAP * (len(columns) - 1) - width
    while excess > 0:
        widest = max(texts, key=lambda index: widths[index])
        if widths[widest] <= _LEAST:
            break
        widths[widest] -= 1
        excess -= 1
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
    for column, column_width in zip(columns, widths, strict=True):
        table.add_column(
            column.heading,
            justify="right" if column.is_number else "left",
            no_wrap=True,
            overflow="ellipsis",
            width=column_width,
        )
    for row in rows:
        table.add_row(*row)
    return table
