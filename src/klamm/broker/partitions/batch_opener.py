"""Opens record batches for requests: small ones where they are, others on a thread beside the event loop.

Most batches are never opened. Those that are open to some kilobytes, and are done with in less time than a thread takes
to hear of them. But a batch may hold very much more than it seems to, so each request has an allowance: what exceeds it
is left to the thread, one batch at a time for all requests. So the memory that opened batches take is bounded, too, and
no request waits for more than one batch of each other request.

The compiled record scanner and the codecs do not hold the interpreter's lock. The scanner in Python does, so it pauses.
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
"""What the batches of one request may open to on the event loop: half a millisecond with most codecs."""
_ALLOWED_RECORDS: Final = 100_000 if IS_COMPILED else 500
"""How many records of one request may be walked over on the event loop: about a millisecond."""
_BEGINNING_BYTES: Final = 1024 * 1024
"""What is opened of a batch first. Most batches are no larger, and many that hold very much are refused for their first
records."""
_PAUSE_S: Final = 0.0 if IS_COMPILED else 0.0002


class Opening(Protocol[R_co]):
    """A batch, and what is to be done with its records: `BatchOpening` and `BatchLookup`."""

    @property
    def records_count(self) -> int:
        """How many records there are to walk over."""

    @property
    def cost(self) -> int:
        """How many bytes may be opened in the time that one of this batch takes."""

    @property
    def max_bytes(self) -> int:
        """How many bytes are opened at most."""

    def open_within(self, max_bytes: int) -> OpenedData:
        """Opens the batch, or the beginning of it."""

    def steps(self, opened: OpenedData) -> Generator[None, None, R_co]:
        """Does what is to be done. Raises `BeginningIsNotEnough` if more is to be opened first."""


class OpensLater(Exception):
    """A batch is too large to be opened on the event loop."""

    def __init__(self, opening: Opening[object]) -> None:
        super().__init__()
        self.opening = opening


class OpeningAllowance:
    """What one request may have opened on the event loop before others have their turn."""

    # Each request has one and few need it: defaults of the class cost nothing.
    _bytes_left: int = _ALLOWED_BYTES
    _records_left: int = _ALLOWED_RECORDS

    def open(self, opening: Opening[R]) -> R:
        """Opens a batch that is within the allowance.

        Raises `OpensLater` if it is not, and what `Opening.steps` raises.
        """
        count, cost = opening.records_count, opening.cost
        if count > self._records_left:
            raise OpensLater(opening)
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
            # A thousand records may have been named, each in a sentence.
            self._bytes_left = self._records_left = 0
            raise


class BatchOpener:
    """Opens the batches that are too large for the allowances of requests, on one thread."""

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None

    async def open_later(self, opening: Opening[R]) -> R:
        """Opens a batch of any size, in its turn. Raises what `Opening.steps` raises."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="klamm-records")
        outcome = await asyncio.get_running_loop().run_in_executor(self._thread, _open, opening)
        if isinstance(outcome, KafkaError):
            raise outcome
        return outcome

    def stop(self) -> None:
        """Begins nothing new; a batch that is being opened is finished for nobody."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)


def _open(opening: Opening[R]) -> R | KafkaError:
    try:
        try:
            return _finish(opening.steps(opening.open_within(_BEGINNING_BYTES)))
        except BeginningIsNotEnough:
            return _finish(opening.steps(opening.open_within(opening.max_bytes)))
    except KafkaError as error:
        # What was opened is to go now: it would stay with the frames of the traceback until a garbage collection.
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
