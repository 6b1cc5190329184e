"""The settings of a Spark session that may change what a check or a decoder makes of a record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["chosen_settings", "judging_settings"]

_WITH_DEFAULTS: Final = ("spark.sql.ansi.enabled", "spark.sql.session.timeZone")
"""Settings whose default depends on the release of Spark, or on the machine."""
_PREFIX: Final = "spark.sql."
_OTHERS: Final = tuple(
    f"{_PREFIX}{part}"
    for part in (
        *(
            "adaptive.",
            "artifact.",
            "autoBroadcastJoinThreshold",
            "broadcastTimeout",
            "catalog.",
            "catalogImplementation",
        ),
        *("codegen.", "debug.", "defaultCatalog", "execution.arrow.", "execution.pyspark.", "extensions", "files."),
        *("hive.", "inMemoryColumnarStorage.", "join.", "optimizer.", "orc.", "parquet.", "python.", "shuffle."),
        *("sources.", "statistics.", "streaming.", "ui.", "warehouse."),
    )
)
"""Settings of speed, of storage and of streams: they change no expression. Catalogs may have passwords."""


def judging_settings(spark: SparkSession) -> dict[str, str]:
    """Returns the settings of the session that belong to the rule of what is bad."""
    return chosen_settings({**spark.conf.getAll, **{key: str(spark.conf.get(key)) for key in _WITH_DEFAULTS}})


def chosen_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Returns those settings of `spark.sql.` that may change what an expression says."""
    return {
        key: value for key, value in sorted(settings.items()) if key.startswith(_PREFIX) and not key.startswith(_OTHERS)
    }
