"""Environment variables that klamm reads: one for each of a broker's keys, and a few of its own."""

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
"""What is no configuration of a broker: the cluster that commands mean, and what klamm tells its own processes."""


def environment_variable(key: str) -> str:
    """The environment variable that sets `key`."""
    return ENVIRONMENT_PREFIX + key.removeprefix("klamm.").replace(".", "_").upper()


def unknown_variables(names: Iterable[str]) -> list[str]:
    """Those of `names` that begin like klamm's and stand for nothing, each with the one that may be meant."""
    candidates = {name for name in names if name.startswith(ENVIRONMENT_PREFIX)} - KEYLESS_VARIABLES
    if not candidates:
        return []  # without reading the table of keys
    known = {environment_variable(key) for key in broker_keys()} | KEYLESS_VARIABLES
    return [name + suggestion(name, known) for name in sorted(candidates - known)]
