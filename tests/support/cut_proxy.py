"""A proxy of bytes in front of one server that cuts connections, or loses what the server answers."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

__all__ = ["CutProxy"]

_AT_ONCE_BYTES = 1 << 16


class CutProxy:
    """A proxy with a thread for each direction of each connection: `with CutProxy(port) as proxy: …`."""

    def __init__(self, target_port: int) -> None:
        """Creates a proxy for a server of this machine."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._target_port = target_port
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._is_cut = False
        self._loses_answers = False

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._lock:
            self._close(self._listener, *self._sockets)

    def cut(self) -> None:
        """Closes all connections, and every new one at once."""
        with self._lock:
            self._is_cut = True
            self._close(*self._sockets)

    def lose_answers(self) -> None:
        """Takes requests to the server, and loses what it answers. The connections stay open."""
        self._loses_answers = True

    def heal(self) -> None:
        """Serves new connections again. Those whose answers were lost are closed."""
        with self._lock:
            if self._loses_answers:
                self._close(*self._sockets)
            self._is_cut = self._loses_answers = False

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._is_cut:
                    self._close(client)
                    continue
                try:
                    server = socket.create_connection(("127.0.0.1", self._target_port))
                except OSError:
                    self._close(client)
                    continue
                with self._lock:  # a cut may have come while the connection was made
                    if self._is_cut:
                        self._close(client, server)
                        continue
                    self._sockets |= {client, server}
                threading.Thread(target=self._copy, args=(client, server, False), daemon=True).start()
                threading.Thread(target=self._copy, args=(server, client, True), daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        with contextlib.suppress(OSError):
            while part := source.recv(_AT_ONCE_BYTES):
                if not (is_answer and self._loses_answers):
                    target.sendall(part)
        with self._lock:
            self._sockets -= {source, target}
        self._close(source, target)

    def _close(self, *sockets: socket.socket) -> None:
        for each in sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
