"""Watches the deliveries of a producer for failures."""

from __future__ import annotations

from klamm.client.producer.outcome import Delivery

__all__ = ["WatchedDeliveries"]


class WatchedDeliveries:
    """Keeps the first failure among the deliveries of one write. Watching and checking take constant time."""

    def __init__(self) -> None:
        self._first_error: Exception | None = None

    def add(self, delivery: Delivery) -> None:
        """Watches a delivery until it ends."""
        delivery.add_callback(lambda: self._ended(delivery))

    def check(self) -> None:
        """Raises the error of the delivery that failed first, if one has failed."""
        if self._first_error is not None:
            raise self._first_error

    def _ended(self, delivery: Delivery) -> None:
        if self._first_error is None:
            self._first_error = delivery.error
