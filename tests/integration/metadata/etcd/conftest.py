"""Fixtures with a running etcd."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from tests.support.etcd_server import Etcd

_numbers = count(1)


@pytest.fixture(scope="package")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    """Provides an etcd that no test may stop. Each test has a prefix of its own."""
    with Etcd(tmp_path_factory.mktemp("etcd")) as running:
        yield running


@pytest.fixture
def prefix() -> str:
    """Returns a prefix that no other test uses."""
    return f"test-{next(_numbers)}"


@pytest.fixture
def own_etcd(tmp_path: Path) -> Iterator[Callable[..., Etcd]]:
    """Returns a function that starts an etcd of the test's own, with the arguments of `Etcd` without the folder."""
    running: list[Etcd] = []

    def start(*arguments: int, **options: object) -> Etcd:
        etcd = Etcd(tmp_path / f"etcd-{len(running)}", *arguments, **options)  # type: ignore[arg-type]
        running.append(etcd)
        return etcd.__enter__()

    yield start
    for each in running:
        each.__exit__(None, None, None)
