"""Whose a data directory is: klamm's, or Apache Kafka's, whose metadata klamm would not see."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from klamm.errors import KlammError
from klamm.storage.metadata_files import METADATA_FILE, METADATA_FOLDER

__all__ = ["EXPORTED_SUFFIX", "IMPORTED_SUFFIX", "BelongsToKafka", "refuse_kafka_directory"]

IMPORTED_SUFFIX: Final = ".imported"
"""Ends the name of Kafka's metadata log once klamm has taken the directory over: neither reads it any more."""

EXPORTED_SUFFIX: Final = ".exported"
"""Ends the name of klamm's metadata once Kafka has got the directory."""


class BelongsToKafka(KlammError):
    """Apache Kafka's metadata log is in the folder and klamm's metadata is not."""


def refuse_kafka_directory(directory: Path) -> None:
    """Raises `BelongsToKafka` for a folder in which klamm would take every topic for one that was deleted."""
    if (directory / METADATA_FOLDER).is_dir() and not (directory / METADATA_FILE).exists():
        raise BelongsToKafka(
            f"{directory} is a data directory of Apache Kafka: take it over with `klamm log import-kafka {directory}`, "
            f"or give the broker another folder with --data-dir"
        )
