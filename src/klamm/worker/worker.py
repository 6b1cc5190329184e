"""The worker: an application's handlers, and the member of a group that feeds them."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from klamm.core.delivery.record_delivery import Order
from klamm.core.delivery.record_window import RecordWindow
from klamm.core.delivery.retry_rule import Retry
from klamm.worker.async_handlers import AsyncHandlers
from klamm.worker.errors import WorkerError
from klamm.worker.event_loop_thread import EventLoopThread
from klamm.worker.handler_plan import HandlerPlan
from klamm.worker.handler_progress import HandlerProgress, ProgressLine, measure_progress
from klamm.worker.handler_runs import HandlerRuns
from klamm.worker.process_handlers import HandlerProcess, note_plan
from klamm.worker.record import Record
from klamm.worker.thread_handlers import FunctionCaller, HandlerCaller, ThreadHandlers
from klamm.worker.worker_metrics import WorkerMetrics

if TYPE_CHECKING:
    from confluent_kafka import Message

    from klamm.worker.simulated_run import SimulatedRun

__all__ = ["Worker", "new_clock", "record_of"]

_logger = logging.getLogger(__name__)

_Function = TypeVar("_Function", bound=Callable[..., Any])
_CLOSE_SECONDS: Final = 5.0
_MAX_POLL_INTERVAL_MS: Final = 300_000
"""librdkafka's default, which is also the time that a member has to give partitions back."""
_OF_CONSUMER: Final = (
    *("auto.offset.reset", "check.crcs", "fetch.", "group.", "heartbeat.interval.ms", "isolation.level"),
    *("max.partition.fetch.bytes", "max.poll.interval.ms", "partition.assignment.strategy", "queued."),
    "session.timeout.ms",
)
"""The beginnings of settings that a producer does not know."""


class Worker:
    """Handlers for the records of topics, in one member of a consumer group.

    `settings` are librdkafka's settings, for example for TLS; they win over what the worker chooses. Times are in
    seconds.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        group: str,
        protocol: Literal["classic", "consumer"] = "classic",
        instance: str | None = None,
        start: Literal["earliest", "latest"] = "earliest",
        commit_every: float = 1.0,
        drain: float = 30.0,
        metadata_bytes: int = 4096,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.group = group
        self.commit_every = commit_every
        self.drain = drain
        self._metadata_bytes = metadata_bytes
        own: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": start,
            "queued.max.messages.kbytes": 8192,
        }
        if protocol == "consumer":
            own["group.protocol"] = "consumer"
        else:
            own["partition.assignment.strategy"] = "cooperative-sticky"
        if instance is not None:
            own["group.instance.id"] = instance
        self._settings = {**own, **(settings or {})}
        longest = int(self._settings.get("max.poll.interval.ms", _MAX_POLL_INTERVAL_MS)) / 1000
        if not 0 <= drain < longest:
            raise WorkerError(f"drain={drain:g}: the group waits for a member for {longest:g} seconds, choose less")
        self._plans: list[HandlerPlan] = []
        self._runs: list[HandlerRuns] = []
        self._stopping = threading.Event()
        self._failure: BaseException | None = None

    # Declaration

    def handler(
        self,
        *topics: str,
        order: Order = "key",
        concurrency: int = 1,
        retries: Retry | None = None,
        dead_letters: str | None = None,
        decode: Callable[[Any], Any] | None = None,
        batch: int = 1,
        within: float = 0.0,
        pool: int | None = None,
        window: int = 20_000,
        window_bytes: int = 64 << 20,
    ) -> Callable[[_Function], _Function]:
        """Declares the decorated function as the handler of topics; the function itself stays as it is.

        A coroutine function runs on an event loop, another function in a thread, or with `pool=` in one of this number
        of processes. The function gets a `Record`, or with `batch=` a list of records. Raises WorkerError.
        """

        def declare(function: _Function) -> _Function:
            is_taken = function.__name__ in {other.name for other in self._plans}
            plan = HandlerPlan(
                function=function,
                topics=topics,
                order=order,
                concurrency=concurrency,
                retries=retries or Retry(),
                dead_letters=dead_letters,
                decode=decode,
                batch=batch,
                within=within,
                pool=pool,
                window=RecordWindow(window, window_bytes, self._metadata_bytes),
                label=":".join([function.__name__, *topics[:1]]) if is_taken else "",
            )
            taken = {topic for other in self._plans for topic in other.topics}
            if both := taken.intersection(topics):
                raise WorkerError(f"{', '.join(sorted(both))}: a topic has one handler")
            self._plans.append(plan)
            if pool is not None:
                note_plan(plan)
            return function

        return declare

    @property
    def handlers(self) -> tuple[HandlerPlan, ...]:
        """The declared handlers."""
        return tuple(self._plans)

    def test(self, *, partitions: int = 1) -> SimulatedRun:
        """Returns a run of the handlers without a broker, in simulated time, for tests."""
        from klamm.worker.simulated_run import SimulatedRun

        return SimulatedRun(self, partitions=partitions)

    # Running

    def run(self, *, progress: bool | None = None, metrics: str | None = None) -> None:
        """Handles records until `stop`, SIGTERM or SIGINT; then drains, commits and leaves the group.

        `progress` shows a line on standard error, by default if that is a terminal. `metrics` is the address on which
        figures for Prometheus are served, for example `127.0.0.1:9464`.

        Raises WorkerError, for example RecordFailed if a record failed for the last time and its handler has no dead
        letters.
        """
        if not self._plans:
            raise WorkerError("the worker has no handler: decorate a function with @app.handler(TOPIC)")
        # Processes are spawned before the consumer exists.
        pools: dict[HandlerPlan, list[HandlerProcess]] = {plan: [] for plan in self._plans}
        try:
            for plan, processes in pools.items():
                for _ in range(plan.pool or 0):
                    processes.append(HandlerProcess(plan))
            with self._stopping_at_signals(), self._served(metrics):
                self._run(pools, sys.stderr.isatty() if progress is None else progress)
        finally:
            for processes in pools.values():
                for process in processes:
                    process.close()
            self._stopping.clear()
            failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def stop(self) -> None:
        """Lets `run` end gracefully; from any thread."""
        self._stopping.set()

    def progress(self) -> tuple[HandlerProgress, ...]:
        """Returns the present figures of each handler; none if the worker does not run. From any thread."""
        return measure_progress(self._runs)

    @contextmanager
    def _served(self, metrics: str | None) -> Iterator[None]:
        if metrics is None:
            yield
            return
        host, _, port = metrics.rpartition(":")
        if not host or not port.isdecimal():
            raise WorkerError(f"metrics={metrics!r}: give an address like 127.0.0.1:9464")
        server = WorkerMetrics(self.group, self.progress)
        _logger.info("serves metrics on port %d", server.serve(host, int(port)))
        try:
            yield
        finally:
            server.close()

    def _run(self, pools: Mapping[HandlerPlan, list[HandlerProcess]], has_line: bool) -> None:
        from klamm.worker.dead_letters import DeadLetters
        from klamm.worker.membership import Membership

        letters = None
        if any(plan.dead_letters for plan in self._plans):
            letters = DeadLetters(
                {name: value for name, value in self._settings.items() if not name.startswith(_OF_CONSUMER)}, self.group
            )
        clock_ms = new_clock()
        bury = None if letters is None else letters.bury
        all_runs = [
            HandlerRuns(plan, clock_ms=clock_ms, to_record=record_of, bury=bury, stop=self._fail)
            for plan in self._plans
        ]
        loop = EventLoopThread()
        slots: list[AsyncHandlers] = []
        threads: list[ThreadHandlers] = []
        for runs in all_runs:
            plan = runs.plan
            if plan.is_async:
                slots.append(AsyncHandlers(runs, loop.loop))
                loop.call(slots[-1].start)
            else:
                callers: list[HandlerCaller] = list(pools[plan])
                threads.append(ThreadHandlers(runs, callers or [FunctionCaller(plan.function)] * plan.concurrency))

        def cancel_gone() -> None:
            for each in slots:
                loop.call(each.cancel_gone)

        line = ProgressLine(_write_progress, clock_ms, get_terminal_size().columns) if has_line else None

        def turn() -> None:
            if letters is not None:
                letters.poll()
            if line is not None:
                line.show(self.progress)

        self._runs = all_runs
        try:
            Membership(
                self._settings,
                {topic: runs for runs in all_runs for topic in runs.plan.topics},
                commit_every=self.commit_every,
                drain_seconds=self.drain,
                on_gone=cancel_gone,
                on_turn=turn,
            ).run(self._stopping)
        finally:
            self._runs = []
            if line is not None:
                line.end()
            for each in slots:
                loop.wait_for(each.close())
            for handlers in threads:
                handlers.close(_CLOSE_SECONDS)
            loop.close()
            if letters is not None:
                letters.flush(_CLOSE_SECONDS)

    def _fail(self, failure: BaseException) -> None:
        if self._failure is None:
            self._failure = failure
        self._stopping.set()

    @contextmanager
    def _stopping_at_signals(self) -> Iterator[None]:
        """Stops at the first SIGTERM or SIGINT. The second one has its usual effect."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

        def restore() -> None:
            for number, handler in before.items():
                signal.signal(number, handler)

        def stop(number: int, _frame: object) -> None:
            _logger.info("stops at signal %d", number)
            self._stopping.set()
            restore()

        for number in before:
            signal.signal(number, stop)
        try:
            yield
        finally:
            restore()


def record_of(message: Message) -> Record:
    """Returns a message of the consumer as a record."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    key: Any = message.key()
    headers: Any = message.headers()
    return Record(topic, partition, offset, key, message.value(), headers or [], message.timestamp()[1])


def _write_progress(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def new_clock() -> Callable[[], float]:
    """Returns a clock in milliseconds since the epoch that never goes back."""
    monotonic = time.monotonic
    offset = time.time() - monotonic()
    return lambda: (monotonic() + offset) * 1000
