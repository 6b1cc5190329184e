"""A session with etcd: a lease, kept alive by a thread of its own.

The session is valid until the time at which the last answered keep-alive was sent, plus the lease's time to live, minus
a margin for clocks that run at different rates. The clock also counts the time for which the machine is suspended
(`session_time`). When this time has passed, the session is over for good, even if etcd still has the lease. Two threads
look at the time: once one of them has found that it has passed, no answer of etcd changes that.

The thread stops to keep the lease alive while the event loop does not run: otherwise a broker that does not answer
would look alive to the others.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Final

from klamm.metadata.etcd.etcd_client import EtcdClient, Method
from klamm.metadata.etcd.etcd_errors import EtcdCallFailed
from klamm.metadata.etcd.generated import etcd_messages_pb2 as messages
from klamm.metadata.metadata_store import MetadataStoreError
from klamm.session_clock import session_time

__all__ = ["EtcdSession"]

_GRANT: Final = Method("/etcdserverpb.Lease/LeaseGrant", messages.LeaseGrantResponse, messages.LeaseGrantRequest, True)
_REVOKE: Final = Method("/etcdserverpb.Lease/LeaseRevoke", messages.LeaseRevokeResponse, messages.LeaseRevokeRequest)
_KEEP_ALIVE: Final = Method(
    "/etcdserverpb.Lease/LeaseKeepAlive", messages.LeaseKeepAliveResponse, messages.LeaseKeepAliveRequest
)
_MARGIN: Final = 1 / 8
"""The margin, as a part of the time to live."""
_INTERVAL: Final = 1 / 6
"""The time between two keep-alives, as a part of the time to live."""
_STALL: Final = 1 / 3
"""A loop that has not run for this part of the time to live has stalled."""
_RETRY_S: Final = 0.1
_EXPIRED: Final = "etcd did not answer a keep-alive in time, or this process did not run"
_logger = logging.getLogger(__name__)


class EtcdSession:
    """A lease that is kept alive from `open` to `close`, or until it is lost."""

    def __init__(self, client: EtcdClient, timeout_s: float, on_lost: Callable[[str], None]) -> None:
        """Creates a session of the running loop. `on_lost` is called on the loop with the reason, maybe twice."""
        self.lease_id = 0
        self._client = client
        self._timeout_s = timeout_s
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._valid_until = 0.0
        self._validity = threading.Lock()
        """Held to extend the session, and to end it. A thread that finds it valid needs no lock."""
        self._last_beat = session_time()
        self._is_unanswered = False
        self._ends = threading.Event()
        self._beat: asyncio.TimerHandle | None = None
        # A daemon, so that a process whose loop died can still end.
        self._thread = threading.Thread(target=self._run, name="metadata-store-keep-alive", daemon=True)

    @property
    def valid_until(self) -> float:
        """The time, by `session_time`, until which no other broker can have seen the end of the session. Once it has
        passed, it is 0 for good.

        A caller that compares it with the clock must look at the clock before: otherwise the caller could find that a
        session has ended which is extended meanwhile.
        """
        until = self._valid_until
        if session_time() < until:
            return until
        with self._validity:
            self._end_if_expired()
            return self._valid_until

    @property
    def is_valid(self) -> bool:
        """Whether this time has not come yet. Once it is False, it stays so."""
        return self.valid_until > 0

    def _end_if_expired(self) -> None:
        if session_time() >= self._valid_until:
            self._valid_until = 0.0

    async def open(self) -> None:
        """Gets a lease and keeps it alive. Raises MetadataStoreError."""
        sent = session_time()
        # A grant that is repeated leaves a lease without keys, which expires.
        request = messages.LeaseGrantRequest(TTL=max(round(self._timeout_s), 1))
        lease = await asyncio.to_thread(self._client.call, _GRANT, request)
        self.lease_id, self._timeout_s = lease.ID, float(lease.TTL)
        self._valid_until = _end_of(sent, lease.TTL)
        self._note_beat()
        self._thread.start()

    async def close(self) -> None:
        """Ends the lease, which removes its keys. If etcd can't be reached, the lease expires."""
        if self._beat is not None:
            self._beat.cancel()
        self._ends.set()
        if not self._thread.is_alive():
            return
        await asyncio.to_thread(self._thread.join)
        if self.is_valid:
            try:
                await asyncio.to_thread(self._client.call, _REVOKE, messages.LeaseRevokeRequest(ID=self.lease_id))
            except MetadataStoreError as error:
                _logger.warning("the session with the metadata store ends by its timeout: %s", error)
        self._end()

    def _note_beat(self) -> None:
        if not self.is_valid:
            self._on_lost(_EXPIRED)  # the thread may be waiting for an answer
            return
        self._last_beat = session_time()
        self._beat = self._loop.call_later(self._timeout_s * _INTERVAL / 2, self._note_beat)

    def _extend(self, until: float) -> bool:
        """Extends the session, unless it has ended. Returns whether it is valid."""
        with self._validity:
            self._end_if_expired()
            if self._valid_until:
                self._valid_until = until
            return self._valid_until > 0

    def _end(self) -> None:
        with self._validity:
            self._valid_until = 0.0

    # The thread

    def _run(self) -> None:
        interval_s = self._timeout_s * _INTERVAL
        delay_s = interval_s
        has_stalled = False
        while not self._ends.wait(delay_s):
            if not self.is_valid:
                self._lose()
                return
            stalled_s = session_time() - self._last_beat
            if stalled_s > self._timeout_s * _STALL:
                if not has_stalled:
                    _logger.warning("the event loop has not run for %.1f s: no keep-alive is sent", stalled_s)
                has_stalled, delay_s = True, _RETRY_S
                continue
            has_stalled = False
            delay_s = interval_s if self._keep_alive() else _RETRY_S

    def _keep_alive(self) -> bool:
        """Sends a keep-alive. Returns whether it was answered."""
        sent = session_time()
        try:
            answer = self._client.call_stream(
                _KEEP_ALIVE, messages.LeaseKeepAliveRequest(ID=self.lease_id), self._timeout_s * _INTERVAL
            )
        except MetadataStoreError as error:
            if not self._is_unanswered:
                _logger.warning("a keep-alive was not answered, and is repeated: %s", error)
            self._is_unanswered = True
            if isinstance(error, EtcdCallFailed) and error.is_lease_gone:
                self._end()
            return False
        if answer.TTL <= 0:
            self._end()  # etcd has no such lease any more
            return False
        self._is_unanswered = False
        # If the answer comes too late, the broker may have refused a commit meanwhile.
        return self._extend(_end_of(sent, answer.TTL))

    def _lose(self) -> None:
        self._end()
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._on_lost, _EXPIRED)


def _end_of(sent: float, time_to_live_s: float) -> float:
    return sent + time_to_live_s * (1 - _MARGIN)
