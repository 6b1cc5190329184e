"""Opens record batches for requests: small batches on the event loop, large ones on a separate thread.

Most batches are never opened. A typical opened batch has some kilobytes, and takes less time than a switch to a thread.
But a small compressed batch may hold much data, so each request has an allowance. A batch that exceeds the allowance
goes to the thread, which opens one batch at a time for all requests. This also bounds the memory of opened batches, and
a request waits for at most one batch of each other request.

The compiled record scanner and the codecs release the interpreter's lock. The Python scanner holds it, so it pauses.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol, TypeVar

from klamm.core.log.batch_opening import BeginningIsNotEnough, finish
from klamm.protocol.compression import OpenedData
from klamm.protocol.errors import KafkaError
from klamm.protocol.record_scanner import IS_COMPILED

__all__ = ["BatchOpener", "Opening", "OpeningAllowance", "OpensLater"]

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

_ALLOWED_BYTES: Final = 256 * 1024
"""Limit for the opened bytes of one request's batches on the event loop: half a millisecond with most codecs."""
_ALLOWED_COMPRESSED_BYTES: Final = 32 * 1024
"""Limit for the compressed bytes of one request's batches on the event loop. A batch may consist of parts that hold
nothing, such as members of gzip: 32 KiB of them take five milliseconds."""
_ALLOWED_RECORDS: Final = 100_000 if IS_COMPILED else 500
"""Limit for the records of one request that are scanned on the event loop: about a millisecond."""
_BEGINNING_BYTES: Final = 1024 * 1024
"""Bytes of a batch that the thread opens first. Most batches are no larger, and many very large ones are refused for
their first records."""
_PAUSE_S: Final = 0.0 if IS_COMPILED else 0.0002


class Opening(Protocol[R_co]):
    """A batch and the operation on its records: `BatchOpening` or `BatchLookup`."""

    @property
    def records_count(self) -> int:
        """Number of records to scan."""

    @property
    def cost(self) -> int:
        """Relative cost of one opened byte: the bytes of the allowance that it uses."""

    @property
    def max_bytes(self) -> int:
        """Upper limit for the opened bytes."""

    @property
    def compressed_bytes(self) -> int:
        """Size of the batch if it is compressed, else 0."""

    def open_within(self, max_bytes: int) -> OpenedData:
        """Opens the batch, or its beginning if it opens to more than `max_bytes`."""

    def steps(self, opened: OpenedData) -> Generator[None, None, R_co]:
        """Runs the operation on the opened records. Raises `BeginningIsNotEnough` if it needs more of the batch."""


class OpensLater(Exception):
    """Raised for a batch that is too large to be opened on the event loop."""

    def __init__(self, opening: Opening[object]) -> None:
        super().__init__()
        self.opening = opening


class OpeningAllowance:
    """The bytes and records that one request may open on the event loop."""

    # Each request has an allowance, but few use it: class attributes as defaults cost nothing.
    _bytes_left: int = _ALLOWED_BYTES
    _compressed_bytes_left: int = _ALLOWED_COMPRESSED_BYTES
    _records_left: int = _ALLOWED_RECORDS

    def open(self, opening: Opening[R]) -> R:
        """Opens a batch within the allowance.

        Raises `OpensLater` if the batch exceeds the allowance, and the errors of `Opening.steps`.
        """
        count, cost, compressed_bytes = opening.records_count, opening.cost, opening.compressed_bytes
        if count > self._records_left or compressed_bytes > self._compressed_bytes_left:
            raise OpensLater(opening)
        self._compressed_bytes_left -= compressed_bytes
        opened = opening.open_within(self._bytes_left // max(cost, 1))
        if len(opened.data) * cost > self._bytes_left:
            raise OpensLater(opening)
        self._bytes_left -= len(opened.data) * cost
        self._records_left -= count
        try:
            return finish(opening.steps(opened))
        except BeginningIsNotEnough:
            raise OpensLater(opening) from None
        except KafkaError:
            # The error may name a thousand records, each in a sentence: building it was expensive.
            self._bytes_left = self._records_left = 0
            raise


class BatchOpener:
    """Opens the batches that are too large for the allowances of requests, on one thread."""

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None

    async def open_later(self, opening: Opening[R]) -> R:
        """Opens a batch of any size on the thread, in the order of the calls. Raises the errors of `Opening.steps`."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="klamm-records")
        outcome = await asyncio.get_running_loop().run_in_executor(self._thread, _open, opening)
        if isinstance(outcome, KafkaError):
            raise outcome
        return outcome

    def stop(self) -> None:
        """Cancels pending batches, and waits for the batch that the thread is opening."""
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)


def _open(opening: Opening[R]) -> R | KafkaError:
    try:
        try:
            return _finish(opening.steps(opening.open_within(_BEGINNING_BYTES)))
        except BeginningIsNotEnough:
            return _finish(opening.steps(opening.open_within(opening.max_bytes)))
    except KafkaError as error:
        # The frames of the traceback would keep the opened data until a garbage collection.
        error.__traceback__ = error.__context__ = error.__cause__ = None
        return error


def _finish(steps: Generator[None, None, R]) -> R:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: R = end.value
            return result
        if _PAUSE_S:
            time.sleep(_PAUSE_S)
