"""Operations without I/O: generators that yield steps and are sent the steps' results.

An operation that sends requests, waits and retries is written once, as `Steps`. `Cluster.run` executes the steps
blocking, `AsyncCluster.run` in an event loop.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from typing import Any, NamedTuple, TypeVar

from klamm.protocol.message import Message
from klamm.protocol.types import BrokerId

__all__ = ["Ask", "Pause", "Refresh", "Step", "Steps"]

T = TypeVar("T")


class Ask(NamedTuple):
    """A step that sends each request to its broker (None: any), all of them before it awaits the first response.

    The result is a list of the responses in the order of `questions`, with a `ConnectionFailed` for each request that
    could not be sent or got no response.
    """

    questions: Sequence[tuple[BrokerId | None, Message]]
    answer: type[Message]


class Refresh(NamedTuple):
    """A step that refreshes the metadata of these topics."""

    topics: Collection[str]


class Pause(NamedTuple):
    """A step that waits."""

    seconds: float


Step = Ask | Refresh | Pause
Steps = Generator[Step, Any, T]
"""An operation that returns a `T`."""
