"""Which requests the metrics page serves, and how many at once."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from klamm.broker.services.metrics import metrics_page
from klamm.broker.services.metrics.metrics_page import MAXIMUM_THREADS, MetricsPage


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"figures"]


@pytest.fixture(scope="module")
def page() -> Iterator[MetricsPage]:
    page = MetricsPage("127.0.0.1", 0, application, ["broker.example.org"])
    page.start()
    yield page
    page.stop()


def ask(page: MetricsPage, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", page.server_port, timeout=20)
    connection.request("GET", "/metrics", headers=headers)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:9404",
        "[::1]:9404",
        "10.1.2.3:80",
        "localhost:9404",
        "LocalHost",
        "localhost.",
        "broker.example.org:1",
    ],
)
def test_it_is_read_under_addresses_and_the_brokers_names(page: MetricsPage, host: str) -> None:
    """The page accepts an IP address or a name of the broker as Host header, with any port, because a tunnel or a proxy
    may use another port."""
    assert ask(page, Host=host) == (200, "figures")


@pytest.mark.parametrize(
    "host",
    [
        "evil.example.com",
        "evil.example.com:9404",
        "localhost.evil.example.com",
        "127.0.0.1.evil.example.com",
        "",
        "a:b:c",
    ],
)
def test_another_name_is_refused(page: MetricsPage, host: str) -> None:
    """Another name in the Host header gets status 421. Otherwise a web site whose name resolves to this machine could
    read the page through a visitor's browser."""
    status, body = ask(page, Host=host)
    assert status == 421
    assert body.startswith(f"{host!r} is not a name of this broker. Use an IP address, or a host name that is in")


def test_a_request_without_the_header_is_served(page: MetricsPage) -> None:
    """A request without a Host header is served: simple probes send none, browsers always send one."""
    with socket.create_connection(("127.0.0.1", page.server_port), timeout=20) as connection:
        connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        answer = b""
        while piece := connection.recv(4096):
            answer += piece
    assert answer.endswith(b"figures")


def threads_of_pages() -> int:
    return sum("process_request_thread" in thread.name for thread in threading.enumerate())


def test_connections_that_say_nothing_take_a_few_threads(
    page: MetricsPage, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Silent connections use at most MAXIMUM_THREADS threads. Further requests get status 503 until the silent
    connections have timed out."""
    silent = [socket.create_connection(("127.0.0.1", page.server_port), timeout=20) for _ in range(5 * MAXIMUM_THREADS)]
    status, body = ask(page, Host="localhost")
    assert (status, "Try again in some seconds" in body) == (503, True)
    assert threads_of_pages() == MAXIMUM_THREADS
    monkeypatch.setattr(metrics_page, "REQUEST_S", 0.0)
    while status != 200:
        status, body = ask(page, Host="localhost")
    assert body == "figures"
    for connection in silent:
        connection.close()
    assert "Traceback" not in capfd.readouterr().err


def test_no_thread_outlives_the_page() -> None:
    """The stop ends silent connections, and waits for the threads of requests: one of them would otherwise ask a broker
    that is closed. A request in progress is answered."""
    entered, finish = threading.Event(), threading.Event()

    def slow(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        entered.set()
        finish.wait(20)
        return application(environ, start_response)

    page = MetricsPage("127.0.0.1", 0, slow)
    page.start()
    with socket.create_connection(("127.0.0.1", page.server_port), timeout=20) as silent:
        answers: list[tuple[int, str]] = []
        reader = threading.Thread(target=lambda: answers.append(ask(page, Host="localhost")))
        reader.start()
        entered.wait(20)
        threading.Timer(0.05, finish.set).start()
        page.stop()
        assert not page.request_threads()
        assert silent.recv(1) == b""
        reader.join(20)
    assert answers == [(200, "figures")]
