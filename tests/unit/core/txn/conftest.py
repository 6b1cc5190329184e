"""Closes the coroutines that a test of transactions leaves unfinished, such as markers that are not written yet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.unit.runtime.transaction_world import close_unfinished


@pytest.fixture(autouse=True)
def _nothing_left_under_way() -> Iterator[None]:
    yield
    close_unfinished()
