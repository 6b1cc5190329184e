"""Operations without a face: generators that say what is to be done, and are sent what came of it.

An operation that asks, waits and asks again is written once, as `Steps`. `Cluster.run` takes the steps blocking,
`AsyncCluster.run` in an event loop.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from typing import Any, NamedTuple, TypeVar

from klamm.protocol.message import Message
from klamm.protocol.types import BrokerId

__all__ = ["Ask", "Pause", "Refresh", "Step", "Steps"]

T = TypeVar("T")


class Ask(NamedTuple):
    """Send each question to its broker (None: any), all of them before the first answer is awaited.

    What is sent back is a list of the answers in the order of the questions, with a `ConnectionFailed` for each that
    could not be asked or was not answered.
    """

    questions: Sequence[tuple[BrokerId | None, Message]]
    answer: type[Message]


class Refresh(NamedTuple):
    """Learn the partitions of these topics anew."""

    topics: Collection[str]


class Pause(NamedTuple):
    """Rest for so long."""

    seconds: float


Step = Ask | Refresh | Pause
Steps = Generator[Step, Any, T]
"""An operation that comes to a `T`."""
