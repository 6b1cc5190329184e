"""Messages of `klamm produce` and `klamm consume` about a partition without a leader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.cli.conftest import Command
from tests.integration.cli.log.data_directory import closed_directory, directory

from klamm.testing import Broker

__all__ = ["closed_directory", "directory"]

SAID = "orders-0 has no leader and is waited for"


@pytest.fixture
def klamm(directory: Path) -> Iterator[Command]:
    """Returns the command for a broker on which orders-0 is offline: its log is missing, as after damage to the
    disk."""
    for path in (directory / "orders-0").glob("*.log"):
        path.unlink()
    with Broker(data_dir=directory) as broker:
        command = Command(broker.bootstrap_servers)
        yield command
        command.end()


@pytest.mark.parametrize("words", [("-p", "0"), ()])
def test_consume_says_for_what_it_waits(klamm: Command, words: tuple[str, ...]) -> None:
    """`klamm consume` says that it waits for a partition without a leader."""
    process = klamm.start("consume", "orders", *words)
    assert process.stderr is not None
    assert process.stderr.readline().decode().startswith(f"klamm consume: {SAID}")


def test_produce_says_for_what_it_waits(klamm: Command) -> None:
    """`klamm produce` says once that it waits for a partition without a leader, then fails. A record for another
    partition is sent without a message."""
    finished = klamm("produce", "orders", "-p", "0", "-X", "message.timeout.ms=8000", stdin="lost\n")
    assert finished.status == 1
    assert finished.stderr.count(f"klamm produce: {SAID}") == 1
    finished = klamm("produce", "orders", "-p", "1", stdin="kept\n")
    assert (finished.status, finished.stderr) == (0, "")
