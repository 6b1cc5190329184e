"""Reads the steps of a page of the documentation: the files to save, and the commands with their outputs.

What a page says to this module:

- A fence `python` after a paragraph with a file's name in backticks is that file, or is added to it if the paragraph
  begins with "Add". A fence `diff` replaces the lines that begin with `-` by those that begin with `+`.
- A fence `console` has commands, each after `$`, and under each its output.
- `<!-- leaves running -->` before a fence: the command goes on in a terminal of its own, and its output appears there
  at some time.
- `<!-- varies: LAG, WATERMARK=2014\\S+ -->` before a fence: these columns of its table may have any other value, or
  one that matches the regular expression.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

__all__ = ["Command", "Edit", "File", "Step", "read_page"]

_FENCE: Final = re.compile(r"^```(\S*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE_NAME: Final = re.compile(r"`([\w./-]+\.(?:py|txt|jsonl))`")
_COMMENT: Final = re.compile(r"<!-- (leaves running|varies: [^>]*) -->\s*$")


@dataclass(frozen=True, slots=True)
class File:
    """A file that the reader saves, or lines that the reader adds at the end of it."""

    name: str
    text: str
    is_added: bool = False

    def apply(self, folder: Path) -> None:
        """Writes the file."""
        path = folder / self.name
        before = path.read_text(encoding="utf-8") + "\n\n" if self.is_added else ""
        path.write_text(before + self.text, encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Edit:
    """Lines of a file that the reader replaces by others."""

    name: str
    old: str
    new: str

    def apply(self, folder: Path) -> None:
        """Replaces the lines. Raises AssertionError if the file does not have them once."""
        path = folder / self.name
        text = path.read_text(encoding="utf-8")
        assert text.count(self.old) == 1, f"{self.name} has these lines {text.count(self.old)} times:\n{self.old}"
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Command:
    """A command, and the output that the page shows."""

    line: int
    text: str
    output: str
    leaves_running: bool = False
    varying: Mapping[str, str] = field(default_factory=dict)
    """Headers of columns whose cells may differ from the page, each with a regular expression for the cell."""

    @property
    def is_ordered(self) -> bool:
        """Whether the lines of the output have an order; records of several partitions have none."""
        return not self.text.startswith("klamm consume") or "sort" in self.text


Step: TypeAlias = File | Edit | Command


def read_page(page: Path) -> Iterator[Step]:
    """Yields the steps of a page in their order."""
    text = page.read_text(encoding="utf-8")
    end = 0
    for fence in _FENCE.finditer(text):
        before, end = text[end : fence.start()], fence.end()
        kind, content = fence.groups()
        paragraph = before.strip().rpartition("\n\n")[2]
        if kind in ("python", "diff", "text") and (name := _last_name(paragraph)) is not None:
            yield _edit(name, content) if kind == "diff" else File(name, content, paragraph.startswith("Add"))
        elif kind == "console":
            yield from _commands(content, text.count("\n", 0, fence.start()) + 2, _comment(before))


def _last_name(paragraph: str) -> str | None:
    names = _FILE_NAME.findall(paragraph)
    return str(names[-1]) if names else None


def _edit(name: str, content: str) -> Edit:
    lines = content.splitlines(keepends=True)
    old = "".join(line[1:] for line in lines if line[0] in "- ")
    return Edit(name, old, "".join(line[1:] for line in lines if line[0] in "+ "))


def _comment(before: str) -> str:
    found = _COMMENT.search(before.rstrip() + "\n")
    return found[1] if found else ""


def _commands(content: str, line: int, comment: str) -> Iterator[Command]:
    kind, _, columns = comment.partition(": ")
    pairs = (column.strip().partition("=") for column in columns.split(", ")) if kind == "varies" else ()
    varying = {name: pattern or ".*" for name, _, pattern in pairs}
    for part in re.split(r"^\$ ", content, flags=re.MULTILINE)[1:]:
        lines = part.splitlines(keepends=True)
        length = 1
        while lines[length - 1].endswith("\\\n"):
            length += 1
        yield Command(line, "".join(lines[:length]).strip(), "".join(lines[length:]), kind == "leaves running", varying)
        line += len(lines)
