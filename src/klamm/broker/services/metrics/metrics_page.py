"""The HTTP server of the metrics page: a few threads, and a check that requests address this broker.

Any local program may read the page, but web sites that the user visits must not. A site can point its own name to the
address of this machine (DNS rebinding). Then the browser sends the request with the site's name in `Host`. So the
header must be an IP address or a name of this broker.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable
from http import HTTPStatus
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

__all__ = ["MetricsPage"]

_logger = logging.getLogger(__name__)

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

MAXIMUM_THREADS: Final = 8
REQUEST_S: Final = 10.0
"""Seconds that a client may be silent. When all threads are busy, also the limit for a whole request."""
_PATIENCE_AT_STOP_S: Final = 2.0
_BUSY: Final = b"This page is being read by too many clients at once. Try again in some seconds.\n"


class _Handler(WSGIRequestHandler):
    """The handler of one request. It does not log requests."""

    timeout = REQUEST_S

    def log_message(self, format: str, *arguments: object) -> None:
        pass


class MetricsPage(ThreadingMixIn, WSGIServer):
    """Serves `application` at `host` and `port` from `start` to `stop`, to clients that address it by one of `names`.

    The constructor raises OSError if the address can't be used.
    """

    def __init__(self, host: str, port: int, application: Application, names: Collection[str] = ()) -> None:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        self.address_family = family
        self._names = {name.lower() for name in ("localhost", socket.gethostname(), host, *names)}
        self._application = application
        self._lock = threading.Lock()
        self._active: dict[socket.socket, float] = {}
        """The start times of the requests in progress, oldest first."""
        self._thread: threading.Thread | None = None
        self._request_threads: set[threading.Thread] = set()
        super().__init__((str(address[0]), port), _Handler)
        self.set_app(self._serve)

    def server_bind(self) -> None:
        """Binds without the DNS query for the machine's full name that `http.server` makes, because it may be slow."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def start(self) -> None:
        """Starts the thread that accepts connections."""
        self._thread = threading.Thread(target=self.serve_forever, name="klamm-metrics", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends all threads, and closes the socket. Requests in progress are answered if that takes no longer than
        `_PATIENCE_AT_STOP_S`, and cut off otherwise.
        """
        if self._thread is not None:
            self.shutdown()
            self._thread.join()
        self.server_close()
        for how in (socket.SHUT_RD, socket.SHUT_RDWR):
            with self._lock:
                for request in self._active:
                    _shut_down(request, how)
            deadline_s = time.monotonic() + _PATIENCE_AT_STOP_S
            for thread in self.request_threads():
                thread.join(max(0.0, deadline_s - time.monotonic()))

    def request_threads(self) -> list[threading.Thread]:
        """Returns the threads of requests in progress."""
        with self._lock:
            return list(self._request_threads)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Starts a thread for the request. If all are busy, refuses it, and closes the oldest request if it is slow."""
        arguments = (request, client_address)
        thread = threading.Thread(target=self.process_request_thread, args=arguments, daemon=True)
        now_s = time.monotonic()
        with self._lock:
            is_full = len(self._active) >= MAXIMUM_THREADS
            if is_full:
                oldest, began_s = next(iter(self._active.items()))
                if now_s - began_s > REQUEST_S:
                    _shut_down(oldest, socket.SHUT_RDWR)
            else:
                self._active[request] = now_s
                self._request_threads.add(thread)
        if is_full:
            _refuse(request)
            self.shutdown_request(request)
        else:
            thread.start()

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answers one request, in a thread of its own."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._request_threads.discard(threading.current_thread())

    def shutdown_request(self, request: Any) -> None:
        """Ends one connection."""
        with self._lock:
            self._active.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Logs a client that disconnected or was too slow, at debug level only."""
        _logger.debug("the page of figures was not read by %s", client_address, exc_info=True)

    def _serve(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        host = environ.get("HTTP_HOST")
        if host is None or self._is_own(host):
            return self._application(environ, start_response)
        status = HTTPStatus.MISDIRECTED_REQUEST
        start_response(f"{status.value} {status.phrase}", [("Content-Type", "text/plain; charset=utf-8")])
        text = (
            f"{host!r} is not a name of this broker. Use an IP address, or a host name that is in listeners, "
            f"advertised.listeners or klamm.metrics.listener.\n"
        )
        return [text.encode("utf-8", "replace")]

    def _is_own(self, header: str) -> bool:
        host = header.strip().lower()
        if host.startswith("["):
            host = host[1:].partition("]")[0]
        elif host.count(":") == 1:
            host = host.partition(":")[0]
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return host.removesuffix(".") in self._names
        return True


def _refuse(request: socket.socket) -> None:
    status = HTTPStatus.SERVICE_UNAVAILABLE
    head = (
        f"HTTP/1.0 {status.value} {status.phrase}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(_BUSY)}\r\nRetry-After: {REQUEST_S:.0f}\r\n\r\n"
    )
    try:
        request.sendall(head.encode() + _BUSY)
    except OSError as error:
        _logger.debug("a client of the page of figures went away: %s", error)


def _shut_down(request: socket.socket, how: int) -> None:
    try:
        request.shutdown(how)
    except OSError as error:
        _logger.debug("a client of the page of figures went away: %s", error)
