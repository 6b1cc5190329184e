"""Makes the Spark session that tests share like the one of `klamm pipeline run`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from klamm.pipelines.declare.option_texts import OptionValue

__all__ = ["settings_of_run", "share_modules"]


@contextmanager
def settings_of_run(spark: SparkSession, conf: Mapping[str, OptionValue]) -> Iterator[None]:
    """Sets the settings of a pipeline's run, with those of the pipeline, and restores the former ones at the end.

    Leaves out settings that Spark can't change in a running session.
    """
    from pyspark.errors import PySparkException

    from klamm.pipelines.declare.option_texts import option_texts
    from klamm.pipelines.run.run_settings import RUN_SETTINGS

    before, changed = spark.conf.getAll, []
    try:
        for key, value in option_texts("conf", {**RUN_SETTINGS, **conf}, {}).items():
            try:
                spark.conf.set(key, value)
            except PySparkException:
                continue
            changed.append(key)
        yield
    finally:
        for key in changed:
            if key in before:
                spark.conf.set(key, before[key])
            else:
                spark.conf.unset(key)


def share_modules(spark: SparkSession) -> None:
    """Lets Spark's workers import what this process can import now: a pipeline's file, and the modules next to it."""
    spark.sparkContext.environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
