"""Detects whether a data directory belongs to klamm or to Apache Kafka, whose metadata klamm would not see."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from klamm.errors import KlammError
from klamm.metadata.image import MetadataImage
from klamm.storage.directory.metadata_files import METADATA_FILE, METADATA_FOLDER

__all__ = [
    "EXPORTED_SUFFIX",
    "IMPORTED_SUFFIX",
    "BelongsToKafka",
    "ImportUnfinished",
    "has_both_forms",
    "refuse_kafka_directory",
    "refuse_unfinished_import",
]

IMPORTED_SUFFIX: Final = ".imported"
"""The suffix of Kafka's metadata log after klamm has taken over the directory. Neither program reads it any more."""

EXPORTED_SUFFIX: Final = ".exported"
"""The suffix of klamm's metadata after Kafka has taken over the directory."""


class BelongsToKafka(KlammError):
    """The folder has Apache Kafka's metadata log and no klamm metadata."""


class ImportUnfinished(KlammError):
    """The folder has Apache Kafka's metadata log, and metadata that klamm has made from it and not used yet."""


def has_both_forms(directory: Path) -> bool:
    """Returns whether the folder has the metadata of both programs."""
    return (directory / METADATA_FOLDER).is_dir() and (directory / METADATA_FILE).exists()


def refuse_unfinished_import(directory: Path, image: MetadataImage) -> None:
    """Raises `ImportUnfinished` for a folder whose import was killed before it had put Kafka's metadata log aside.

    Kafka could still run on the folder. The metadata of klamm (`image`) has no broker until the first start.
    """
    if not image.registrations and has_both_forms(directory):
        raise ImportUnfinished(
            f"the import of {directory} from Apache Kafka was not completed: repeat "
            f"`klamm log import-kafka {directory}`"
        )


def refuse_kafka_directory(directory: Path) -> None:
    """Raises `BelongsToKafka` for a folder of Apache Kafka, in which klamm would treat every topic as deleted."""
    if (directory / METADATA_FOLDER).is_dir() and not (directory / METADATA_FILE).exists():
        raise BelongsToKafka(
            f"{directory} is a data directory of Apache Kafka: take it over with `klamm log import-kafka {directory}`, "
            f"or give the broker another folder with --data-dir"
        )
