"""A handler as it is declared."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from klamm.core.delivery.record_delivery import Order, RecordDelivery
from klamm.core.delivery.record_window import RecordWindow
from klamm.core.delivery.retry_rule import Retry
from klamm.worker.errors import WorkerError

__all__ = ["HandlerPlan", "wait_for_result"]


async def wait_for_result(result: Awaitable[Any]) -> None:
    """Waits for what a plain function has returned to be awaited.

    It is not always a coroutine of Python's own: those of compiled modules, for example, have a type of their own.
    """
    await result


@dataclass(frozen=True, eq=False)
class HandlerPlan:
    """A function with the topics that it handles, and how."""

    function: Callable[..., Any]
    topics: tuple[str, ...]
    order: Order
    concurrency: int
    retries: Retry
    dead_letters: str | None
    decode: Callable[[Any], Any] | None
    batch: int
    within: float
    """The time in seconds that a batch may wait for further records."""
    pool: int | None
    """The number of processes that run the function; None to run it in this process."""
    window: RecordWindow
    label: str = ""
    """The name, if it is not that of the function."""

    def __post_init__(self) -> None:
        if not self.topics or not all(isinstance(topic, str) for topic in self.topics):
            raise WorkerError("name the topics: @app.handler('orders')")
        if any(topic.startswith("^") for topic in self.topics):
            raise WorkerError("a handler reads topics by name, not by pattern")
        if self.pool is not None and "<locals>" in self.function.__qualname__:
            raise WorkerError(f"{self.name} is not at the top of its module, where the processes of pool= find it")
        if inspect.isgeneratorfunction(self.function) or inspect.isasyncgenfunction(self.function):
            raise WorkerError(f"{self.name} has yield, so a call of it handles nothing: a handler returns")
        if self.order not in ("key", "partition", "none"):
            raise WorkerError(f"order={self.order!r}: choose 'key', 'partition' or 'none'")
        pool = 1 if self.pool is None else self.pool
        if min(self.concurrency, self.batch, pool, self.window.records, self.window.size_bytes) < 1:
            raise WorkerError("concurrency, batch, pool, window and window_bytes are at least 1")
        if self.dead_letters in self.topics:
            raise WorkerError(f"the dead letters of {self.name} would go to {self.dead_letters}, which it reads")

    @property
    def name(self) -> str:
        """The name of the function, with a topic if another handler has this name."""
        return self.label or self.function.__name__

    @property
    def is_async(self) -> bool:
        """Whether the function runs on the event loop."""
        return self.pool is None and inspect.iscoroutinefunction(self.function)

    def new_delivery(self) -> RecordDelivery:
        """Returns the decisions of one member about the handler's records."""
        return RecordDelivery(
            order=self.order,
            concurrency=self.concurrency if self.pool is None else self.pool,
            retry=self.retries,
            window=self.window,
            batch=self.batch,
            within_ms=self.within * 1000,
        )
