"""Simulated threads of a data directory: their jobs run one after the other, when the world says so."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, TypeVar

__all__ = ["Threads"]

T = TypeVar("T")
U = TypeVar("U")

_OWN = "klamm-storage"
"""The directory's own thread, whose jobs wait. Jobs of other threads run at once: their callers wait for them."""


class Threads:
    """A simulated `ThreadPoolExecutor`."""

    def __init__(self, max_workers: int | None = None, thread_name_prefix: str = "") -> None:
        self._waits = thread_name_prefix == _OWN
        self._jobs: deque[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]] = deque()

    def submit(self, job: Callable[..., T], *arguments: Any) -> Future[T]:
        """See `Executor.submit`."""
        future: Future[T] = Future()
        self._jobs.append((future, job, arguments))
        if not self._waits:
            self.run_all()
        return future

    def map(self, job: Callable[[U], T], items: Iterable[U]) -> Iterator[T]:
        """See `Executor.map`."""
        return iter([job(item) for item in items])

    def __len__(self) -> int:
        return len(self._jobs)

    def run_one(self) -> None:
        """Runs the job that has waited longest."""
        future, job, arguments = self._jobs.popleft()
        try:
            future.set_result(job(*arguments))
        except Exception as error:
            future.set_exception(error)

    def run_all(self) -> None:
        """Runs all waiting jobs."""
        while self._jobs:
            self.run_one()

    def shutdown(self, wait: bool = True) -> None:
        """See `Executor.shutdown`."""
        self.run_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.shutdown()
