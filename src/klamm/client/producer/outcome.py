"""The results of calls to a producer: the delivery of a record or batch, and the end of an operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from klamm.protocol.types import Offset, TopicPartition

if TYPE_CHECKING:
    from klamm.client.producer.batch import PendingBatch

__all__ = ["Delivery", "Operation"]


class Delivery:
    """The delivery of one record, or of one finished batch (then its first record).

    It ends once: acknowledged by the broker according to `acks`, or failed. Deliveries of one partition end in the
    order of the calls of `send`, unless some of them fail.
    """

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: PendingBatch, index: int) -> None:
        self._batch = batch
        self._index = index

    def __repr__(self) -> str:
        state = "pending" if not self.is_done else (repr(self.error) if self.error else f"offset {self.offset}")
        return f"<Delivery to {self.topic_partition}: {state}>"

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition that the record goes to."""
        return self._batch.topic_partition

    @property
    def is_first(self) -> bool:
        """Whether the record is the first one of its batch."""
        return self._index == 0

    @property
    def is_done(self) -> bool:
        """Whether the delivery has ended."""
        return self._whereabouts()[0].is_done

    @property
    def error(self) -> Exception | None:
        """Why the delivery failed; None while it is pending and after success."""
        return self._whereabouts()[0].error

    @property
    def offset(self) -> Offset | None:
        """The record's offset in the log; None before success, with `acks=0`, and if only a later answer showed that
        the batch was written (DUPLICATE_SEQUENCE_NUMBER)."""
        batch, index = self._whereabouts()
        return None if batch.base_offset < 0 else Offset(batch.base_offset + index)

    def add_callback(self, callback: Callable[[], None]) -> None:
        """Calls the function when the delivery ends, at once if it has ended. The function must not raise."""
        self._whereabouts()[0].add_callback(callback)

    def _whereabouts(self) -> tuple[PendingBatch, int]:
        """Returns the batch that holds the record now, and its index there: a batch that is too large is split."""
        while parts := self._batch.parts:
            for first_index, part in reversed(parts):
                if self._index >= first_index:
                    self._batch, self._index = part, self._index - first_index
                    break
        return self._batch, self._index


class Operation:
    """A call of the application that needs several requests to the cluster, such as a commit or a flush."""

    __slots__ = ("_callbacks", "error", "is_done", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        """The verb phrase in messages: "commit the transaction"."""
        self.is_done = False
        """Whether the operation has ended."""
        self.error: Exception | None = None
        """The reason for a failure; None while the operation is in progress and after success."""
        self._callbacks: list[Callable[[], None]] = []

    def add_callback(self, callback: Callable[[], None]) -> None:
        """Calls the function when the operation ends, at once if it has ended. The function must not raise."""
        if self.is_done:
            callback()
        else:
            self._callbacks.append(callback)

    def end(self, error: Exception | None = None) -> None:
        """Ends the operation, with an error or with success. Later calls have no effect."""
        if self.is_done:
            return
        self.is_done, self.error = True, error
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()
