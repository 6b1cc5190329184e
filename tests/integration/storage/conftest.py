"""The data directory of the unit tests of this room."""

from __future__ import annotations

from tests.unit.storage.conftest import folder

__all__ = ["folder"]
