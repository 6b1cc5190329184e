"""What somebody may have meant who wrote a name that does not exist."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

__all__ = ["nearest", "suggestion"]

_LIKENESS: Final = 0.8
"""How much of both names has to be the same, from 0 to 1: a letter too many, too few or wrong, or a part left out."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The name that is most like `name`; None if none is."""
    import difflib  # only who made a mistake waits for it

    found = difflib.get_close_matches(name, sorted(known), n=1, cutoff=_LIKENESS)
    return found[0] if found else None


def suggestion(name: str, known: Iterable[str]) -> str:
    """A question to be put behind `name`; "" where nothing is like it."""
    meant = nearest(name, known)
    return f" (did you mean {meant}?)" if meant is not None else ""
