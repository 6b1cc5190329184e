"""The driver's commit of a small micro-batch imports neither pyarrow nor numpy."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import pyspark.sql.datasource
before = set(sys.modules)
import klamm.spark.sink.exactly_once, klamm.spark.sink.stream_writer
from klamm.spark.folders import folder_at
folder_at("/tmp").read("nothing")
print({name.partition(".")[0] for name in set(sys.modules) - before} & {"pyarrow", "numpy", "pandas"})
"""


def test_the_commit_imports_nothing_large() -> None:
    """The commit imports no large package, because the import would take longer than the commit."""
    found = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True, timeout=60)
    assert found.stdout.strip() == "set()"
