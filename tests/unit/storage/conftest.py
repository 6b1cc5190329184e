"""A data directory in a temporary folder for every test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.log_folder import LogFolder


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[LogFolder]:
    """A fresh data directory, open."""
    folder = LogFolder(tmp_path / "data")
    yield folder
    folder.close()
