"""Tests of a worker that is a process of its own: signals, the line in a terminal, figures for Prometheus, and a
simulated run without a Kafka client.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from tests.support.ports import free_port
from tests.support.running_worker import committed, create_topic, produce, wait_until

from klamm.testing import Broker

HANDLERS: Final = {
    "coroutine": (
        "@app.handler(TOPIC, concurrency=4)\n"
        "async def handle(record):\n"
        "    print('begins\\n', end='', flush=True)\n"
        "    await asyncio.sleep(1.5)\n"
    ),
    "threads": (
        "@app.handler(TOPIC, concurrency=4)\n"
        "def handle(record):\n"
        "    print('begins\\n', end='', flush=True)\n"
        "    time.sleep(1.5)\n"
    ),
    "held": (
        "@app.handler(TOPIC, concurrency=4)\n"
        "def handle(record):\n"
        "    print('begins\\n', end='', flush=True)\n"
        "    while not pathlib.Path(__file__).with_name('may-end').exists():\n"
        "        time.sleep(0.02)\n"
    ),
    "pool": (
        "@app.handler(TOPIC, pool=4)\n"
        "def handle(record):\n"
        "    print('begins\\n', end='', flush=True)\n"
        "    time.sleep(1.5)\n"
    ),
}
DRAINS: Final = {"stuck": 1, "interrupted": 120}


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """Runs a broker for all tests; each test has its own topic and group."""
    with Broker() as running:
        yield running.bootstrap_servers


@contextmanager
def process_of(servers: str, topic: str, handler: str, folder: Path, run: str = "") -> Iterator[subprocess.Popen[str]]:
    """Runs a worker whose handler prints a line when a record begins."""
    script = folder / "work.py"
    script.write_text(
        "import asyncio, pathlib, time\n"
        "from klamm.worker import Worker\n"
        f"TOPIC = {topic!r}\n"
        f"app = Worker({servers!r}, group=TOPIC, drain={DRAINS.get(handler, 30)})\n"
        f"{HANDLERS.get(handler, HANDLERS['threads'].replace('1.5', '3600'))}"
        "if __name__ == '__main__':\n"
        f"    app.run({run})\n"
    )
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _wait_for_begins(process: subprocess.Popen[str], count: int) -> None:
    assert process.stdout is not None
    for _ in range(count):
        assert process.stdout.readline() == "begins\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("handler", ["coroutine", "threads", "pool"])
def test_a_signal_ends_the_worker_gracefully(servers: str, tmp_path: Path, handler: str, number: int) -> None:
    """Records that run are finished and committed, and the process ends with status 0."""
    topic = f"signal-{handler}-{number:d}"
    create_topic(servers, topic)
    produce(servers, topic, ((b"%d" % key, b"x") for key in range(4)))
    with process_of(servers, topic, handler, tmp_path) as process:
        _wait_for_begins(process, 4)
        process.send_signal(number)
        assert process.wait(30) == 0
    assert committed(servers, topic, topic) == (4, "")


def test_a_second_interrupt_does_not_wait_for_handlers(servers: str, tmp_path: Path) -> None:
    """The first Ctrl-C waits for `drain`, the second one does not."""
    create_topic(servers, "interrupted")
    produce(servers, "interrupted", [(b"a", b"x")])
    with process_of(servers, "interrupted", "interrupted", tmp_path) as process:
        _wait_for_begins(process, 1)
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == -signal.SIGINT
    assert committed(servers, "interrupted", "interrupted")[0] <= 0


@pytest.mark.parametrize(("signals", "status"), [(1, 0), (2, -signal.SIGTERM)])
def test_a_handler_that_does_not_end(servers: str, tmp_path: Path, signals: int, status: int) -> None:
    """After `drain` the worker leaves although a handler runs; a second signal ends the process at once."""
    topic = f"stuck-{signals}"
    create_topic(servers, topic)
    produce(servers, topic, [(b"a", b"x")])
    with process_of(servers, topic, "stuck", tmp_path) as process:
        _wait_for_begins(process, 1)
        process.send_signal(signal.SIGTERM)
        errors = process.stderr
        assert errors is not None
        wait_until(lambda: "handlers still run after 1 seconds" in errors.readline())
        if signals == 2:
            process.send_signal(signal.SIGTERM)
        assert process.wait(60) == status
    assert committed(servers, topic, topic)[0] <= 0


def test_progress_and_figures_while_it_runs(servers: str, tmp_path: Path) -> None:
    """`run(progress=True, metrics=…)` writes a line and serves figures."""
    create_topic(servers, "figures")
    produce(servers, "figures", ((b"%d" % key, b"x") for key in range(4)))
    port = free_port()
    options = f"progress=True, metrics='127.0.0.1:{port}'"

    def figures() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            return str(answer.read().decode())

    with process_of(servers, "figures", "held", tmp_path, options) as process:
        _wait_for_begins(process, 4)
        assert 'klamm_worker_records_running{group="figures",handler="handle"} 4.0' in figures()
        (tmp_path / "may-end").touch()
        wait_until(lambda: 'klamm_worker_handled_records_total{group="figures",handler="handle"} 4.0' in figures())
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=30)
        assert process.returncode == 0
    assert "handle: 0 handled" in errors


def test_a_run_for_tests_needs_no_kafka_client(tmp_path: Path) -> None:
    """`app.test()` works where confluent-kafka is not installed."""
    script = tmp_path / "without_client.py"
    script.write_text(
        "import sys\n"
        "sys.modules['confluent_kafka'] = None\n"
        "from klamm.worker import Worker\n"
        "app = Worker('no-broker:9092', group='billing')\n"
        "@app.handler('orders', dead_letters='orders-failed')\n"
        "async def bill(record):\n"
        "    print(record.value.decode())\n"
        "with app.test() as run:\n"
        "    run.produce('orders', b'handled')\n"
        "    run.finish()\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "handled\n", "")
