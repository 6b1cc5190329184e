"""Detects whether a data directory belongs to klamm or to Apache Kafka, whose metadata klamm would not see."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from klamm.errors import KlammError
from klamm.storage.directory.metadata_files import METADATA_FILE, METADATA_FOLDER

__all__ = ["EXPORTED_SUFFIX", "IMPORTED_SUFFIX", "BelongsToKafka", "refuse_kafka_directory"]

IMPORTED_SUFFIX: Final = ".imported"
"""The suffix of Kafka's metadata log after klamm has taken over the directory. Neither program reads it any more."""

EXPORTED_SUFFIX: Final = ".exported"
"""The suffix of klamm's metadata after Kafka has taken over the directory."""


class BelongsToKafka(KlammError):
    """The folder has Apache Kafka's metadata log and no klamm metadata."""


def refuse_kafka_directory(directory: Path) -> None:
    """Raises `BelongsToKafka` for a folder of Apache Kafka, in which klamm would treat every topic as deleted."""
    if (directory / METADATA_FOLDER).is_dir() and not (directory / METADATA_FILE).exists():
        raise BelongsToKafka(
            f"{directory} is a data directory of Apache Kafka: take it over with `klamm log import-kafka {directory}`, "
            f"or give the broker another folder with --data-dir"
        )
