"""The exception that a checker raises."""

from __future__ import annotations

__all__ = ["Violation"]


class Violation(AssertionError):
    """A violated invariant. `invariant` is its number in the list; 0 stands for an event that must never occur."""

    def __init__(self, invariant: int, text: str) -> None:
        super().__init__(f"I{invariant}: {text}" if invariant else text)
        self.invariant = invariant
        self.text = text
