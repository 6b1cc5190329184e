"""The exception that a checker raises."""

from __future__ import annotations

from typing import Final

__all__ = ["EXCEPTION", "Violation"]

EXCEPTION: Final = -1
"""Stands for an exception that nobody expected, in place of an invariant."""


class Violation(AssertionError):
    """A violated invariant.

    `invariant` is its number in the list; 0 stands for another event that must never occur, `EXCEPTION` for an
    exception that a broker or a coordinator has logged.
    """

    def __init__(self, invariant: int, text: str) -> None:
        super().__init__(f"I{invariant}: {text}" if invariant > 0 else text)
        self.invariant = invariant
        self.text = text
