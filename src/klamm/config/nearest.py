"""Suggests a similar known name for an unknown one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

__all__ = ["nearest", "suggestion"]

_LIKENESS: Final = 0.8
"""The minimum similarity of two names, from 0 to 1: it allows an extra, missing or wrong letter, or a missing part."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Returns the known name that is most similar to `name`; None if no name is similar enough."""
    import difflib  # imported only after a mistake, because the import takes time

    found = difflib.get_close_matches(name, sorted(known), n=1, cutoff=_LIKENESS)
    return found[0] if found else None


def suggestion(name: str, known: Iterable[str]) -> str:
    """Returns a question to append to `name`; "" if no known name is similar."""
    meant = nearest(name, known)
    return f" (did you mean {meant}?)" if meant is not None else ""
