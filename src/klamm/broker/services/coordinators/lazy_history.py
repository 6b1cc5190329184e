"""The history of groups, which starts a moment after its first event. Neither a start of the broker nor the first
request of a group waits until the code of the history is loaded.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from klamm.broker.services.coordinators.coordinator_ports import CodeImport
from klamm.protocol.types import PartitionIndex

if TYPE_CHECKING:
    from klamm.core.group.history.change import UnderWay
    from klamm.core.group.partition_traffic import Traffic
    from klamm.runtime.history_writer import GroupHistory
    from klamm.runtime.ports import Cancellable, Executor, Timers

__all__ = ["LazyHistory"]

_logger = logging.getLogger(__name__)

_MOMENT_MS: Final = 200.0
_STEP_MS: Final = 3.0


class _Untold(NamedTuple):
    partition: PartitionIndex
    events: Sequence[object] | None
    """Pending events of the partition; None if this broker no longer leads it."""


class LazyHistory:
    """Stands in for the history until `begin` has created it, then passes the events on.

    `load` imports the code that `begin` needs. This is slow and runs on the thread of `executor`.
    """

    def __init__(
        self, timers: Timers, executor: Executor, *, load: Callable[[], object], begin: Callable[[], GroupHistory]
    ) -> None:
        self._timers = timers
        self._executor = executor
        self._load = load
        self._begin = begin
        self._history: GroupHistory | None = None
        self._untold: deque[_Untold] = deque()
        self._alarm: Cancellable | None = None
        self._is_stopped = False

    def publish(self, partition: PartitionIndex, events: Sequence[object]) -> None:
        """Publishes events as `GroupHistory.publish` does."""
        if self._history is not None and not self._untold:
            self._history.publish(partition, events)
        else:
            self._keep(_Untold(partition, events))

    def under_way(self, group_id: str) -> UnderWay | None:
        """Returns the same as `GroupHistory.under_way`; None before the history has started."""
        return None if self._history is None else self._history.under_way(group_id)

    def on_traffic(self, traffic: Traffic) -> None:
        """Does the same as `GroupHistory.on_traffic`; nothing before the history has started."""
        if self._history is not None:
            self._history.on_traffic(traffic)

    def on_resignation(self, partition: PartitionIndex) -> None:
        """Forgets the groups of a partition as `GroupHistory.on_resignation` does, after its pending events."""
        if self._untold:
            self._keep(_Untold(partition, None))
        elif self._history is not None:
            self._history.on_resignation(partition)

    def stop(self) -> None:
        """Stops the history as `GroupHistory.stop` does. Drops the pending events."""
        self._is_stopped = True
        self._untold.clear()
        if self._alarm is not None:
            self._alarm.cancel()
        if self._history is not None:
            self._history.stop()

    def _keep(self, untold: _Untold) -> None:
        if self._is_stopped:
            return
        self._untold.append(untold)
        if self._alarm is None:
            tell = self._tell if self._history is not None else self._bring_code
            self._alarm = self._timers.call_at(self._timers.now_ms() + _MOMENT_MS, tell)

    def _bring_code(self) -> None:
        self._executor.submit(CodeImport(self._load), self._on_code)

    def _on_code(self, _outcome: object) -> None:
        # If the import failed, `begin` raises the reason.
        if not self._is_stopped:
            self._tell()

    def _tell(self) -> None:
        """Passes pending events to the history for some milliseconds at a time. After a start they may be very many."""
        self._alarm = None
        started_ms = self._timers.now_ms()
        if self._history is None:
            try:
                self._history = self._begin()
            except Exception:
                # The next event retries.
                _logger.exception("the history of groups can't begin; it lacks the latest events")
                self._untold.clear()
                return
        while self._untold and self._timers.now_ms() - started_ms < _STEP_MS:
            partition, events = self._untold.popleft()
            if events is None:
                self._history.on_resignation(partition)
            else:
                self._history.publish(partition, events)
        if self._untold:
            self._alarm = self._timers.call_at(self._timers.now_ms(), self._tell)
