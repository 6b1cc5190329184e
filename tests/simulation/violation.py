"""What a checker raises."""

from __future__ import annotations

__all__ = ["Violation"]


class Violation(AssertionError):
    """An invariant does not hold. `invariant` is its number in the list; 0 is for what must not happen anyway."""

    def __init__(self, invariant: int, text: str) -> None:
        super().__init__(f"I{invariant}: {text}" if invariant else text)
        self.invariant = invariant
        self.text = text
