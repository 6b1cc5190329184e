"""The requests of a producer that wait for a coordinator: their order, and where the coordinators are."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from klamm.client.config import Address
from klamm.client.producer.backoff import Backoff
from klamm.client.producer.transaction_requests import CoordinatorKey, FindCoordinator, TransactionRequest
from klamm.protocol.types import Millis

__all__ = ["CoordinatorQueue"]


class CoordinatorQueue:
    """The waiting requests, and the request without an answer. There is at most one of the latter, as in Kafka's
    producer."""

    def __init__(self, backoff: Backoff) -> None:
        self.under_way: TransactionRequest | None = None
        self._backoff = backoff
        self._waiting: list[tuple[int, int, TransactionRequest]] = []
        self._enqueued = 0
        self._coordinators: dict[CoordinatorKey, Address | None] = {}

    def add(self, request: TransactionRequest) -> None:
        """Adds a request behind those of the same priority."""
        self._enqueued += 1
        heapq.heappush(self._waiting, (request.priority, self._enqueued, request))

    def add_again(self, request: TransactionRequest, now: Millis, pause_ms: Millis | None) -> None:
        """Adds a request that failed, to be sent after a pause; `pause_ms` makes it shorter."""
        request.attempts += 1
        longest_ms = self._backoff.pause_ms(request.attempts)
        request.not_before = now + (longest_ms if pause_ms is None else min(pause_ms, longest_ms))
        self.add(request)

    def first(self) -> TransactionRequest | None:
        """Returns the request that is sent next."""
        return self._waiting[0][2] if self._waiting else None

    def with_coordinator(self, request: TransactionRequest) -> TransactionRequest:
        """Returns the request if its coordinator is known, else a request that finds the coordinator first."""
        if request.coordinator is None or self._coordinators.get(request.coordinator) is not None:
            return request
        self.add(FindCoordinator(request.coordinator))
        return self._waiting[0][2]

    def remove_first(self) -> TransactionRequest:
        """Removes the request of `first`."""
        return heapq.heappop(self._waiting)[2]

    def remove(self, is_removed: Callable[[TransactionRequest], bool]) -> list[TransactionRequest]:
        """Removes and returns the waiting requests for which the function returns True."""
        removed = [entry[2] for entry in self._waiting if is_removed(entry[2])]
        self._waiting = [entry for entry in self._waiting if entry[2] not in removed]
        heapq.heapify(self._waiting)
        return removed

    def next_time(self) -> float | None:
        """Returns when the first request may be sent; None if no request waits, or if a request is in progress."""
        if self.under_way is not None or not self._waiting:
            return None
        return self._waiting[0][2].not_before

    # Coordinators.

    def found(self, key: CoordinatorKey, address: Address) -> None:
        """Notes a coordinator."""
        self._coordinators[key] = address

    def look_up(self, key: CoordinatorKey | None) -> None:
        """Forgets the coordinator: it is found again before the next request goes there."""
        if key is not None:
            self._coordinators[key] = None

    def unreachable(self, address: Address) -> None:
        """Forgets all coordinators at an address to which no connection can be opened."""
        for key, known in self._coordinators.items():
            if known == address:
                self._coordinators[key] = None

    def address_for(self, request: TransactionRequest) -> Address | None:
        """Returns the address to which the request is sent; None stands for any broker."""
        return None if request.coordinator is None else self._coordinators[request.coordinator]

    def has(self, address: Address) -> bool:
        """Returns whether a coordinator is at the address."""
        return address in self._coordinators.values()
