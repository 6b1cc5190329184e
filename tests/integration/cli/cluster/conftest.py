"""Brokers and an etcd for the commands that copy metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.integration.cli.conftest import Command
from tests.interop.broker_process import BrokerProcess
from tests.support.etcd_server import Etcd

__all__ = ["Start"]

Start = Callable[..., BrokerProcess]


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    """Provides an etcd of the test's own."""
    with Etcd(tmp_path / "etcd") as running:
        yield running


@pytest.fixture
def command() -> Command:
    """Provides the command, without a cluster."""
    return Command("")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Returns a function that starts a broker with its data in a folder of that name; a single one without URL."""
    with ExitStack() as stack:

        def begin(name: str, url: str = "", *options: str) -> BrokerProcess:
            folder = tmp_path / name
            folder.mkdir(exist_ok=True)
            words = ["--profile", "test", *(["--metadata", url] if url else []), *options]
            broker = BrokerProcess(folder, {}, options=words)
            stack.callback(broker.kill)
            return broker

        yield begin
