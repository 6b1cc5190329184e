"""A decision about metadata that has been taken but not yet written."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from klamm.metadata.metadata_store import Change

__all__ = ["Plan", "Planning"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Plan(Generic[T]):
    """`result` is true once `changes` are written, which must happen in one transaction or not at all.

    The transaction holds only if every key in `changes` and in `reads` is as the image showed it when the plan was
    made.
    """

    result: T
    changes: Sequence[Change] = ()
    reads: Sequence[str] = ()


Planning: TypeAlias = Generator[None, None, Plan[T]]
"""Makes a plan, and yields wherever others may have their turn: the image does not change meanwhile."""
