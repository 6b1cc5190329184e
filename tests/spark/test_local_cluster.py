"""The source where executors are processes of their own, with checkpoints through the file system of klamm's jar."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.spark_driver import SHORT_LIVED_JVM
from tests.support.spark_topics import Topic

pytestmark = pytest.mark.timeout(300)

# In a process of its own: this one's JVM has its master and its class path already.
SCRIPT = """
import json
import sys
from pathlib import Path
from pyspark.sql import functions as f
from klamm.spark import session

bootstrap_servers, topic, folder, fast, settings = sys.argv[1:]
spark = session("cluster", "local-cluster[2,1,1024]", fast_checkpoints=fast == "fast", **json.loads(settings))
options = {"kafka.bootstrap.servers": bootstrap_servers, "subscribe": topic, "startingOffsets": "earliest"}
print("rows", spark.read.format("klamm").options(**options).load().count())

def run_to_the_end():
    counts = spark.readStream.format("klamm").options(**options).load().groupBy(f.col("key").cast("string")).count()
    query = (
        counts.writeStream.outputMode("complete").format("memory").queryName("counts")
        .option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
    )
    query.awaitTermination()
    print("counts", sorted(map(tuple, spark.table("counts").collect())))

run_to_the_end()
sys.stdout.flush()
input()
run_to_the_end()

def described(status):
    # Hadoop knows times by the second.
    return (
        status.getPath().toString(), status.getLen(), status.isDirectory(), status.isSymlink(),
        status.getPermission().toString(), status.getOwner(), status.getGroup(), status.getModificationTime() // 1000,
    )

jvm = spark.sparkContext._jvm
context = jvm.org.apache.hadoop.fs.FileContext.getFileContext(
    jvm.java.net.URI("file:///"), spark.sparkContext._jsc.hadoopConfiguration()
)
ours, hadoops = context.getDefaultFileSystem(), jvm.org.apache.hadoop.fs.RawLocalFileSystem()
hadoops.initialize(jvm.java.net.URI("file:///"), spark.sparkContext._jsc.hadoopConfiguration())
print("through", ours.getClass().getSimpleName())
for name in ("metadata", "commits", "commits/0"):
    path = jvm.org.apache.hadoop.fs.Path(f"file://{folder}/checkpoint/{name}")
    assert described(ours.getFileStatus(path)) == described(hadoops.getFileStatus(path)), name
print("checksum files", len(list(Path(folder).glob("checkpoint/**/.*.crc"))))
spark.stop()
"""


def test_executors_read_and_a_query_goes_on_from_its_checkpoint(
    topic: Topic, bootstrap_servers: str, tmp_path: Path
) -> None:
    """Two executors of one core; state and offsets of the first run are there in the second.

    Checkpoints are written without checksum files, through a file system that says of each file what Hadoop's says.
    """
    topic.produce_records({"key": f"key-{number % 3}", "value": "value"} for number in range(300))
    checkpoints = "fast" if shutil.which("javac") else "plain"
    settings = {
        **SHORT_LIVED_JVM,
        "spark.executor.extraJavaOptions": SHORT_LIVED_JVM["spark.driver.extraJavaOptions"],
        "spark.sql.shuffle.partitions": "2",  # each has a file of state, and three keys need no 200
    }
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, str(script), bootstrap_servers, topic.name, str(tmp_path), checkpoints, json.dumps(settings)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        first = [process.stdout.readline().strip() for _ in range(2)]
        topic.produce_records([{"key": "key-0", "value": "again"}])
        printed, errors = process.communicate("go on\n", timeout=200)
    finally:
        process.kill()
    assert first == ["rows 300", "counts [('key-0', 100), ('key-1', 100), ('key-2', 100)]"], errors[-3000:]
    assert printed.splitlines() == [
        "counts [('key-0', 101), ('key-1', 100), ('key-2', 100)]",
        f"through {'CheckpointLocalFs' if checkpoints == 'fast' else 'RawLocalFs'}",
        "checksum files 0",
    ], errors[-3000:]
