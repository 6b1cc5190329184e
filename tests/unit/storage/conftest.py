"""Fixtures for storage tests: each test gets a data directory in a temporary folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.log_folder import LogFolder


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[LogFolder]:
    """Yields a new, open data directory."""
    folder = LogFolder(tmp_path / "data")
    yield folder
    folder.close()
