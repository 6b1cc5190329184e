"""A door in front of a schema registry: TLS, a password, and failures on request."""

from __future__ import annotations

import base64
import ssl
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType

__all__ = ["GuardedRegistry"]


class GuardedRegistry:
    """A server that passes requests on to a registry: `with GuardedRegistry(url) as door: door.url`.

    With a `certificate` (key and certificate in a PEM file) it speaks TLS; with `user_info` (`name:password`) it asks
    for a password.
    """

    def __init__(self, registry_url: str, *, certificate: Path | None = None, user_info: str | None = None) -> None:
        self.failures_left = 0
        """The number of requests to be answered with 503."""
        self.requests = 0
        expected = None if user_info is None else f"Basic {base64.b64encode(user_info.encode()).decode()}"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        door = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                door.requests += 1
                if expected is not None and self.headers["Authorization"] != expected:
                    self._answer(401, b'{"error_code":401,"message":"Unauthorized"}')
                elif door.failures_left > 0:
                    door.failures_left -= 1
                    self._answer(503, b'{"error_code":50301,"message":"starting"}')
                else:
                    try:
                        with opener.open(registry_url + self.path, timeout=30) as answer:
                            self._answer(answer.status, answer.read())
                    except urllib.error.HTTPError as error:
                        self._answer(error.code, error.read())

            def _answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Prints nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            scheme = "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> GuardedRegistry:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
