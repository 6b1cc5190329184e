"""The fixtures of the tests of the `klamm` command: broker, topics and groups."""

from __future__ import annotations

from tests.integration.cli.conftest import broker, group, klamm, topic

__all__ = ["broker", "group", "klamm", "topic"]
