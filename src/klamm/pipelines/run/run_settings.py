"""The settings of a run's Spark session that a pipeline may override."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["RUN_SETTINGS"]

RUN_SETTINGS: Final[Mapping[str, str]] = {"spark.sql.session.timeZone": "UTC"}
"""The same records make the same rows on each machine."""
