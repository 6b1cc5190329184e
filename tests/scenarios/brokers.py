"""The brokers that play scenarios: klamm and Apache Kafka, with the same configuration.

A scenario selects a configuration with `broker NAME`: the keys of broker_configs/NAME.properties, in addition to the
common keys of all brokers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Protocol

__all__ = ["FOLDER", "Broker", "broker_config", "scenario_paths"]

FOLDER: Final = Path(__file__).parent


class Broker(Protocol):
    """A broker of klamm or of Apache Kafka."""

    bootstrap_servers: str

    def restart(self) -> None:
        """Restarts the broker on the same port and data."""


def broker_config(name: str) -> dict[str, str]:
    """Returns the configuration with that name."""
    config: dict[str, str] = {}
    for each in ("common", name):
        for line in (FOLDER / "broker_configs" / f"{each}.properties").read_text(encoding="utf-8").splitlines():
            if line.strip() and not line.startswith("#"):
                key, _, value = line.partition("=")
                config[key.strip()] = value.strip()
    return config


def scenario_paths() -> list[Path]:
    """Returns the paths of all scenarios."""
    return sorted(FOLDER.glob("*/*.txt"))
