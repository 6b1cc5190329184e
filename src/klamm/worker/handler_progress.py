"""The progress of a worker: what each handler has done, and what it holds."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from klamm.worker.handler_runs import HandlerRuns

__all__ = ["HandlerProgress", "ProgressLine", "measure_progress"]


@dataclass(frozen=True, slots=True)
class HandlerProgress:
    """The figures of one handler in this process."""

    handler: str
    topics: tuple[str, ...]
    handled: int
    """Records that the handler has finished."""
    failed_attempts: int
    dead_letters: int
    in_flight: int
    """Records that were received and are not finished."""
    in_flight_bytes: int
    running: int
    """Records that the handler has at the moment."""
    waiting: int
    """Failed records that wait for their next attempt."""
    partitions: int
    paused: int
    """Partitions of which no more is read for now."""
    held_seconds: float
    """How long the oldest unfinished record has been here; it holds up the commit of its partition."""
    held_partition: str | None
    hot_key: bytes | None
    """The beginning of the key with the most records in flight, if a key has more than one."""
    hot_records: int


def measure_progress(all_runs: Iterable[HandlerRuns]) -> tuple[HandlerProgress, ...]:
    """Returns the present figures."""
    return tuple(map(_measure, all_runs))


def _measure(runs: HandlerRuns) -> HandlerProgress:
    with runs.lock:
        owned = list(runs.delivery.partitions.values())
        held = min(
            ((lanes.held_since_ms, lanes) for lanes in owned if lanes.held_since_ms is not None),
            key=lambda each: each[0],
            default=None,
        )
        hot_key, hot_records = max((lanes.hot_key() for lanes in owned), key=lambda key: key[1], default=(None, 0))
        return HandlerProgress(
            handler=runs.plan.name,
            topics=runs.plan.topics,
            handled=runs.succeeded,
            failed_attempts=runs.failed_attempts,
            dead_letters=runs.dead,
            in_flight=sum(lanes.unfinished for lanes in owned),
            in_flight_bytes=sum(lanes.size_bytes for lanes in owned),
            running=sum(lanes.running for lanes in owned),
            waiting=sum(lanes.waiting for lanes in owned),
            partitions=len(owned),
            paused=sum(lanes.is_paused for lanes in owned),
            held_seconds=0.0 if held is None else max(0.0, (runs.clock_ms() - held[0]) / 1000),
            held_partition=None if held is None else str(held[1].name),
            hot_key=hot_key,
            hot_records=hot_records,
        )


class ProgressLine:
    """One line on a terminal that is written again each second."""

    def __init__(self, write: Callable[[str], object], clock_ms: Callable[[], float], width: int = 120) -> None:
        self._write = write
        self._clock_ms = clock_ms
        self._width = width
        self._shown_ms = 0.0
        self._handled: dict[str, int] = {}

    def show(self, measure: Callable[[], tuple[HandlerProgress, ...]]) -> None:
        """Writes the line if the last one is a second old."""
        now_ms = self._clock_ms()
        if now_ms < self._shown_ms + 1000:
            return
        seconds = (now_ms - self._shown_ms) / 1000 if self._shown_ms else 0.0
        self._shown_ms = now_ms
        text = " | ".join(self._words(each, seconds) for each in measure())
        self._put(f"\r\x1b[K{text[: self._width - 1]}")

    def end(self) -> None:
        """Leaves the last line on the terminal."""
        if self._shown_ms:
            self._put("\n")

    def _put(self, text: str) -> None:
        with contextlib.suppress(OSError):  # the terminal may be closed while the worker goes on
            self._write(text)

    def _words(self, each: HandlerProgress, seconds: float) -> str:
        before = self._handled.get(each.handler, 0)
        self._handled[each.handler] = each.handled
        parts = [f"{each.handler}: {each.handled:,} handled"]
        if seconds:
            parts.append(f"{(each.handled - before) / seconds:,.0f}/s")
        parts.append(f"{each.in_flight:,} in flight")
        parts += [f"{each.dead_letters:,} dead letters"] if each.dead_letters else []
        parts += [f"{each.waiting:,} wait for a retry"] if each.waiting else []
        if each.held_seconds >= 1:
            parts.append(f"{each.held_partition} is held up for {each.held_seconds:.0f} s")
        return ", ".join(parts)
