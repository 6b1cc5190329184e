"""Fixtures with a running etcd."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Final

import pytest
from tests.support.etcd_server import Etcd
from tests.support.share_of_gate import is_in_share_of_gate

_PARTS_OF_GATE: Final = {"test_etcd_members.py": 4, "test_etcd_security.py": 2}
"""The gate runs one in so many of the tests of these files for each commit: they wait long for timeouts of etcd."""
_numbers = count(1)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what the gate does not run for this commit."""
    left_out = [
        item
        for item in items
        if item.path.parent == Path(__file__).parent
        and not is_in_share_of_gate(item.nodeid, _PARTS_OF_GATE.get(item.path.name, 1))
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


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
