"""The Python processes that Spark starts in a session of klamm's."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_workers_import_pyspark_as_pip_has_installed_it(spark: SparkSession) -> None:
    """Not from Spark's archive, which each of them would compile anew; and they are this very Python."""
    import pyspark

    def look(_: int) -> tuple[str, str]:
        import sys as of_worker

        import pyspark as there

        return of_worker.prefix, there.__file__

    assert spark.sparkContext.parallelize([0], 1).map(look).collect() == [(sys.prefix, pyspark.__file__)]
