"""Spark settings for sessions that end with their test, and the archive of Spark's classes that speeds up their start.

    python -m tests.support.short_lived_spark ARCHIVE

writes the archive (class-data sharing). That takes the processor time of four starts of Spark, and halves the time of
each later start. A JVM uses the archive only if its class path begins as in the archive; so all sessions have the jar
of `klamm.spark.checkpoints`, which pipelines need, in front.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from tests.support.alone import alone
from tests.support.short_lived_java import QUICK_START

from klamm.spark.checkpoints import is_built, jar_path

__all__ = ["SHORT_LIVED_JVM", "prepare_classes"]

_ROOT: Final = Path(__file__).resolve().parents[2]


_JAR: Final = jar_path() if is_built() else None


def _archive() -> Path:
    """Returns the archive's place; it fits one Java, one Spark, one place of Spark's jars and one checkpoint jar."""
    java = os.path.realpath(os.environ.get("JAVA_HOME") or shutil.which("java") or "")
    jar = "" if _JAR is None else f"{_JAR} {_JAR.stat().st_mtime_ns}"
    parts = (java, importlib.metadata.version("pyspark"), sys.prefix, jar)
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"klamm-tests-classes-of-spark-{digest}.jsa"


_ARCHIVE: Final = _archive()

# A JVM that ends with its test spends more on compiling for the long run than it wins. Without the archive, or with
# other jars, it loads all classes itself.
SHORT_LIVED_JVM: Final[dict[str, Any]] = {
    "spark.driver.extraJavaOptions": " ".join([*QUICK_START, f"-XX:SharedArchiveFile={_ARCHIVE}", "-Xlog:disable"]),
    **({} if _JAR is None else {"spark.driver.extraClassPath": str(_JAR)}),
}


def prepare_classes() -> None:
    """Writes the archive, unless this machine has it."""
    with alone("classes-of-spark"):
        if not _ARCHIVE.exists():
            part = _ARCHIVE.with_suffix(f".{os.getpid()}")
            subprocess.run([sys.executable, "-m", __name__, str(part)], cwd=_ROOT, check=True, capture_output=True)
            part.rename(_ARCHIVE)


def _load_classes(archive: str) -> None:
    """Runs small queries like those of the tests; the JVM writes the archive when it ends."""
    from pyspark.sql import functions as F

    from klamm.spark import session

    options = " ".join([*QUICK_START, f"-XX:ArchiveClassesAtExit={archive}", "-Xlog:disable"])
    settings: dict[str, Any] = {"spark.driver.extraJavaOptions": options, "spark.sql.shuffle.partitions": 1}
    spark = session("classes", "local[2,4]", fast_checkpoints=_JAR is not None, **settings)
    with tempfile.TemporaryDirectory() as folder:
        numbers = spark.readStream.format("rate").load()
        parsed = numbers.withColumn("json", F.from_json(F.lit('{"a": 1}'), "a int"))
        counted = parsed.withWatermark("timestamp", "1 minute").groupBy(F.window("timestamp", "1 minute")).count()
        for name, frame in (("parsed", parsed), ("counted", counted)):
            writing = frame.writeStream.format("parquet").option("checkpointLocation", f"{folder}/{name}-checkpoint")
            writing.trigger(availableNow=True).start(f"{folder}/{name}").awaitTermination()
            spark.read.parquet(f"{folder}/{name}").collect()
        pairs = spark.createDataFrame([(1, "a")], "id int, text string")
        pairs.mapInArrow(lambda tables: tables, "id int, text string").collect()
    spark.stop()
    gateway: Any = spark.sparkContext._gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    _load_classes(sys.argv[1])
