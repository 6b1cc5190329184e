"""The data directory of the storage unit tests."""

from __future__ import annotations

from tests.unit.storage.conftest import folder

__all__ = ["folder"]
