"""The brokers on which scenarios are played: klamm and Apache Kafka, each told the same.

A scenario says with `broker NAME` how its broker is set: as broker_configs/NAME.properties says, on top of what all
are told.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Protocol

__all__ = ["FOLDER", "Broker", "broker_config", "scenario_paths"]

FOLDER: Final = Path(__file__).parent


class Broker(Protocol):
    """Either of them."""

    bootstrap_servers: str

    def restart(self) -> None:
        """Stops it and starts it again on the same port and data."""


def broker_config(name: str) -> dict[str, str]:
    """Keys of the broker of that name."""
    config: dict[str, str] = {}
    for each in ("common", name):
        for line in (FOLDER / "broker_configs" / f"{each}.properties").read_text(encoding="utf-8").splitlines():
            if line.strip() and not line.startswith("#"):
                key, _, value = line.partition("=")
                config[key.strip()] = value.strip()
    return config


def scenario_paths() -> list[Path]:
    """All scenarios."""
    return sorted(FOLDER.glob("*/*.txt"))
