"""The code of the documentation's pages, so that tests run what a reader copies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

__all__ = ["page_blocks", "page_code", "write_pipeline"]

_DOCS: Final = Path(__file__).parents[2] / "docs"
_END: Final = "\n```"


def page_blocks(page: str, language: str) -> list[str]:
    """Returns the blocks of a language of a page, such as "how-to/run-a-cluster.md", in their order."""
    text = (_DOCS / page).read_text(encoding="utf-8")
    return [rest.partition(_END)[0] for rest in text.split(f"```{language}\n")[1:]]


def page_code(page: str, names: Mapping[str, str] | None = None) -> list[str]:
    """Returns the blocks of Python of a page, such as "how-to/joins.md", in their order.

    `names` replaces texts within quotes: names of topics, of which each test needs its own, addresses and paths.
    """
    blocks = page_blocks(page, "python")
    for name, own in (names or {}).items():
        assert any(f'"{name}"' in block for block in blocks), f"{page} has no {name}"
        blocks = [block.replace(f'"{name}"', f'"{own}"') for block in blocks]
    return blocks


def write_pipeline(file: Path, *blocks: str) -> Path:
    """Writes the blocks into a file, as a reader does, and returns the file."""
    file.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
    return file
