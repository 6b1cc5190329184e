"""Spark looks for `format("klamm")` in a module of this name; importing klamm is not needed.

As the program of spark-submit, this file is the `klamm` command: `spark-submit … pyspark_klamm.py pipeline run …`.
"""

from __future__ import annotations

from klamm.spark.data_source import KlammDataSource

__all__ = ["DefaultSource"]

DefaultSource = KlammDataSource

if __name__ == "__main__":
    import sys

    from klamm.cli.main import main

    sys.exit(main())
