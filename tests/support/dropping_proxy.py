"""A proxy in front of one broker that loses requests or answers of selected APIs by closing the connection.

The broker must advertise the proxy's address, so that all clients connect through the proxy.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Literal

__all__ = ["DroppingProxy", "Loss"]

Loss = Literal["request", "answer"]

_SIZE = struct.Struct(">i")
_API_KEY = struct.Struct(">h")


class DroppingProxy:
    """A proxy with a thread for each direction of each connection: `with DroppingProxy() as proxy: …`.

    `lose` plans the requests or answers to lose; `lost` counts the lost ones.
    """

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.target: Callable[[], str] = str
        """A function that returns the broker's address as host:port; the proxy can start before the broker."""
        self.lost = 0
        self._lock = threading.Lock()
        self._planned: dict[int, deque[Loss | None]] = {}
        self._sockets: set[socket.socket] = set()

    def lose(self, api_key: int, *plan: Loss | None) -> None:
        """Plans the losses for the next requests of this API, where None is no loss. Resets old plans and `lost`."""
        with self._lock:
            self._planned = {api_key: deque(plan)}
            self.lost = 0

    def lose_nothing(self) -> None:
        """Drops what is left of the plan, so that the next test of a shared proxy begins without losses."""
        with self._lock:
            self._planned = {}
            self.lost = 0

    def __enter__(self) -> DroppingProxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close(self._listener, *self._sockets)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                host, _, port = self.target().rpartition(":")
                try:
                    broker = socket.create_connection((host, int(port)))
                except (OSError, ValueError):
                    self._close(client)
                    continue
                self._sockets |= {client, broker}
                fates: deque[Loss | None] = deque()
                threading.Thread(target=self._forward, args=(client, broker, fates), daemon=True).start()
                threading.Thread(target=self._answer, args=(broker, client, fates), daemon=True).start()

    def _forward(self, client: socket.socket, broker: socket.socket, fates: deque[Loss | None]) -> None:
        with contextlib.suppress(OSError):
            while (frame := _read_frame(client)) is not None:
                fate = self._fate(_API_KEY.unpack_from(frame, 4)[0])
                if fate == "request":
                    break
                fates.append(fate)
                broker.sendall(frame)
        self._close(client, broker)

    def _answer(self, broker: socket.socket, client: socket.socket, fates: deque[Loss | None]) -> None:
        with contextlib.suppress(OSError):
            while (frame := _read_frame(broker)) is not None:
                # A request with acks=0 has no answer; no test here mixes it with losses.
                if fates and fates.popleft() == "answer":
                    break
                client.sendall(frame)
        self._close(client, broker)

    def _fate(self, api_key: int) -> Loss | None:
        with self._lock:
            plan = self._planned.get(api_key)
            fate = plan.popleft() if plan else None
            self.lost += fate is not None
            return fate

    def _close(self, *sockets: socket.socket) -> None:
        for each in sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


def _read_frame(source: socket.socket) -> bytes | None:
    """Returns one frame with its size; None at the end of the stream."""
    head = _read(source, _SIZE.size)
    if head is None:
        return None
    body = _read(source, _SIZE.unpack(head)[0])
    return None if body is None else head + body


def _read(source: socket.socket, size_bytes: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size_bytes:
        if not (part := source.recv(min(size_bytes - len(parts), 1 << 20))):
            return None
        parts += part
    return bytes(parts)
