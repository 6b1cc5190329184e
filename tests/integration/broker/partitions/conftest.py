"""Fixtures for tests of the partitions of real brokers."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tests.support.slow_disk import SlowDisk


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowDisk]:
    """Replaces `fdatasync` for the brokers of the test."""
    disk = SlowDisk()
    monkeypatch.setattr(os, "fdatasync", disk.fdatasync)
    yield disk
    disk.may_pass.set()
