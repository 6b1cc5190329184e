"""Collects what many tasks want to ask of another broker into few requests.

At most one request is in flight to a broker. Entries that arrive meanwhile wait, and go into the next request together,
as in Apache Kafka's `TransactionMarkerChannelManager` and `AddPartitionsToTxnManager`. So a busy broker gets larger
requests, not more of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from klamm.broker.services.peers.peers import PeerUnavailable

if TYPE_CHECKING:
    from klamm.protocol.types import BrokerId
    from klamm.runtime.ports import Spawn

__all__ = ["PeerBatches"]

_logger = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)
E = TypeVar("E")
R = TypeVar("R")

_MAXIMUM_WAITING: Final = 10_000
"""Entries for one broker that may wait; further ones fail, so that a broker that hangs costs bounded memory."""


class _Waiting(NamedTuple, Generic[K, E, R]):
    key: K
    entry: E
    answer: asyncio.Future[R]


class PeerBatches(Generic[K, E, R]):
    """The entries for all other brokers, sent by a task for each broker with waiting entries.

    `send` sends one request with entries of different keys, and returns the answers by key; it raises PeerUnavailable.
    """

    def __init__(
        self,
        send: Callable[[BrokerId, Mapping[K, E]], Awaitable[Mapping[K, R]]],
        spawn: Spawn,
        *,
        maximum_entries: int,
    ) -> None:
        """Creates the batches. `maximum_entries` limits the entries of one request."""
        self._send = send
        self._spawn = spawn
        self._maximum_entries = maximum_entries
        self._waiting: dict[BrokerId, deque[_Waiting[K, E, R]]] = {}
        """The waiting entries of each broker to which a task is sending."""

    async def ask(self, broker_id: BrokerId, key: K, entry: E) -> R:
        """Sends the entry with the next request to the broker, and returns its answer.

        Two entries of the same key are never in one request. Raises PeerUnavailable if the request fails, or if too
        many entries wait.
        """
        waiting = self._waiting.get(broker_id)
        if waiting is not None and len(waiting) >= _MAXIMUM_WAITING:
            raise PeerUnavailable(f"{len(waiting)} entries for broker {broker_id} are waiting")
        answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        if waiting is None:
            waiting = self._waiting[broker_id] = deque()
            self._spawn(self._send_all(broker_id, waiting))
        waiting.append(_Waiting(key, entry, answer))
        return await answer

    async def _send_all(self, broker_id: BrokerId, waiting: deque[_Waiting[K, E, R]]) -> None:
        batch: Sequence[_Waiting[K, E, R]] = ()
        try:
            while waiting:
                batch = self._take(waiting)
                if batch:
                    await self._send_batch(broker_id, batch)
        finally:
            del self._waiting[broker_id]
            # None is left, unless the task was cancelled because this broker stops.
            _fail((*batch, *waiting), PeerUnavailable(f"broker {broker_id} can't be asked: this broker stops"))

    async def _send_batch(self, broker_id: BrokerId, batch: Sequence[_Waiting[K, E, R]]) -> None:
        try:
            answers = await self._send(broker_id, {each.key: each.entry for each in batch})
        except PeerUnavailable as error:
            _fail(batch, error)
        except Exception as error:
            _logger.exception("a request to broker %d failed", broker_id)
            _fail(batch, PeerUnavailable(f"broker {broker_id}: {error}"))
        else:
            for each in batch:
                if not each.answer.done():
                    each.answer.set_result(answers[each.key])

    def _take(self, waiting: deque[_Waiting[K, E, R]]) -> Sequence[_Waiting[K, E, R]]:
        """Removes and returns the entries of the next request, without those whose task was cancelled."""
        batch: dict[K, _Waiting[K, E, R]] = {}
        later: list[_Waiting[K, E, R]] = []
        while waiting and len(batch) < self._maximum_entries:
            each = waiting.popleft()
            if each.answer.done():
                continue
            if each.key in batch:
                later.append(each)
            else:
                batch[each.key] = each
        waiting.extendleft(reversed(later))
        return list(batch.values())


def _fail(batch: Sequence[_Waiting[K, E, R]], error: PeerUnavailable) -> None:
    for each in batch:
        if not each.answer.done():
            each.answer.set_exception(error)
