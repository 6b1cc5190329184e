"""The environment variables that klamm reads: one for each broker key, and a few without a key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from klamm.config.nearest import suggestion
from klamm.config.table import broker_keys

__all__ = ["ENVIRONMENT_PREFIX", "KEYLESS_VARIABLES", "environment_variable", "unknown_variables"]

ENVIRONMENT_PREFIX: Final = "KLAMM_"
KEYLESS_VARIABLES: Final = frozenset(
    {
        "KLAMM_BOOTSTRAP_SERVER",
        "KLAMM_CONFIG",
        "KLAMM_CONTEXT",
        "KLAMM_PURE_PYTHON",
        "KLAMM_SPARK_APPLICATION_ID",
        "KLAMM_SPARK_CHECKPOINTS",
    }
)
"""Variables that are not broker configuration: the cluster for commands, and settings for klamm's own processes."""


def environment_variable(key: str) -> str:
    """Returns the environment variable that sets `key`."""
    return ENVIRONMENT_PREFIX + key.removeprefix("klamm.").replace(".", "_").upper()


def unknown_variables(names: Iterable[str]) -> list[str]:
    """Returns the names that have klamm's prefix but are unknown, each with a suggestion if one is similar."""
    candidates = {name for name in names if name.startswith(ENVIRONMENT_PREFIX)} - KEYLESS_VARIABLES
    if not candidates:
        return []  # avoids loading the table of keys
    known = {environment_variable(key) for key in broker_keys()} | KEYLESS_VARIABLES
    return [name + suggestion(name, known) for name in sorted(candidates - known)]
