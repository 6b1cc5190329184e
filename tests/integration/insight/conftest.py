"""The broker, topics and groups of the command's tests."""

from __future__ import annotations

from tests.integration.cli.conftest import broker, group, klamm, topic

__all__ = ["broker", "group", "klamm", "topic"]
