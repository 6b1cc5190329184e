"""Tests the Python processes that Spark starts in a session that klamm created."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_workers_import_pyspark_as_pip_has_installed_it(spark: SparkSession) -> None:
    """Workers run the driver's Python, and import PySpark from its installation instead of Spark's archive.

    Each worker would have to compile the modules in the archive again.
    """
    import pyspark

    def look(_: int) -> tuple[str, str]:
        import sys as of_worker

        import pyspark as there

        return of_worker.prefix, there.__file__

    assert spark.sparkContext.parallelize([0], 1).map(look).collect() == [(sys.prefix, pyspark.__file__)]
