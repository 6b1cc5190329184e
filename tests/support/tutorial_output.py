"""Compares the output of a command with that on a page: without what differs from run to run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Final

__all__ = ["differs", "tidy"]

# What a run shows for it, and what both the page and the run are compared with.
_DIFFERENT_EACH_TIME: Final = (
    (re.compile(r"\x1b\[[0-9;?]*[A-Za-z]"), ""),
    (re.compile(r"127\.0\.0\.1:\d+"), "HOST:PORT"),
    (re.compile(r"\blocal-\d+"), "APPLICATION"),
    (re.compile(r"[\d,.]+ records/s"), "RATE"),
    # A run that finds nothing to read has no micro-batch.
    (re.compile(r"\bmicro-batch \d+, |, watermark [^,]+"), ""),
    (re.compile(r"\d+(\.\d+)? (ms|s|min) ago"), "AGE ago"),
    (re.compile(r"process \d+ on \S+"), "process PID on HOST"),
    (re.compile(r"klamm\.timestamp=\d+"), "klamm.timestamp=MS"),
    (re.compile(r"lag 0 \([^)]*\)"), "lag 0"),
)
_COLUMNS: Final = {"PID": r"\d+|none", "HOST": r".*", "UPDATED": r".*", "RECORDS S": r".*", "LAG SECONDS": r".*"}
# What a command prints now and then while it works; on a terminal, the line disappears.
_PROGRESS: Final = re.compile(r"\w+: [a-z ]+, ([\d,]+ of [\d,]+ tasks, )?[\d.]+ (ms|s|min)$")
_CELL: Final = re.compile(r"\s{2,}")
_HEADER: Final = re.compile(r"[A-Z][A-Z ]*$")


def tidy(line: str) -> str:
    """Returns a line without what differs from run to run, and with single spaces."""
    for pattern, word in _DIFFERENT_EACH_TIME:
        line = pattern.sub(word, line)
    return " ".join(line.split())


def differs(expected: str, shown: str, varying: Mapping[str, str], names: MutableMapping[str, str]) -> bool:
    """Returns whether an output is another one than that of the page; notes the process ids of an equal one."""
    ours, theirs = list(_lines(expected)), list(_lines(shown))
    found: dict[str, str] = {}
    patterns = {**_COLUMNS, **varying}
    if len(ours) != len(theirs):
        return True
    for (line, cells), (other, others) in zip(ours, theirs, strict=True):
        if cells is None or others is None or cells.keys() != others.keys():
            if tidy(line) != tidy(other):
                return True
            continue
        for header, cell in cells.items():
            if header not in patterns:
                if tidy(cell) != tidy(others[header]):
                    return True
            elif others[header] != cell and re.fullmatch(patterns[header], others[header]) is None:
                return True
            elif header == "PID" and cell != "none":
                found[cell] = others[header]
    names.update(found)
    return False


def _lines(text: str) -> Iterator[tuple[str, dict[str, str] | None]]:
    """Yields the lines that are not empty and tell no progress; those of a table also as cells by header."""
    headers: list[str] | None = None
    for line in text.splitlines():
        if not line.strip() or _PROGRESS.match(line):
            continue
        cells = _CELL.split(line.strip())
        if len(cells) > 1 and all(map(_HEADER.match, cells)):
            headers = cells
            yield line, None
        elif headers is not None and len(cells) == len(headers):
            yield line, dict(zip(headers, cells, strict=True))
        else:
            yield line, None
