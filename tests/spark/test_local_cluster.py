"""Tests source and sink with executors in separate processes, and checkpoints through klamm's file system."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.support.short_lived_spark import SHORT_LIVED_JVM
from tests.support.spark_topics import Topic

from klamm.client.cluster import Cluster
from klamm.client.config import ClientConfig
from klamm.client.group_description import ClassicDescription, GroupDescriptions
from klamm.spark.source.group.exclusive_assignor import owner_in

pytestmark = pytest.mark.timeout(300)

# The script needs a separate process: the JVM of the test process already has a master and a class path.
SCRIPT = """
import json
import sys
from pathlib import Path
from pyspark.sql import functions as f
from klamm.spark import session

bootstrap_servers, topic, copies, folder, fast, settings = sys.argv[1:]
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

def own_a_group():
    owning = options | {"kafka.group.id": f"owner-of-{topic}", "klamm.group.mode": "member"}
    rows = spark.readStream.format("klamm").options(**owning).load()
    query = (
        rows.selectExpr("offset").writeStream.format("parquet")
        .option("checkpointLocation", f"{folder}/owner").start(f"{folder}/rows")
    )
    query.processAllAvailable()
    print("owned", spark.read.parquet(f"{folder}/rows").count(), "as", spark.sparkContext.applicationId, flush=True)
    input()
    query.processAllAvailable()
    query.stop()
    print("owned", spark.read.parquet(f"{folder}/rows").count(), flush=True)

def write_copies():
    to = {"kafka.bootstrap.servers": bootstrap_servers, "topic": copies}
    batch = spark.read.format("klamm").options(**options).load().select("key", "value")
    batch.write.format("klamm").mode("append").options(**to).save()
    once = {"klamm.sink.semantics": "exactly-once", "klamm.sink.inline.bytes": "0"}
    rows = spark.readStream.format("klamm").options(**options).load().select("key", "value")
    query = (
        rows.writeStream.format("klamm").options(**to, **once)
        .option("checkpointLocation", f"{folder}/copies").trigger(availableNow=True).start()
    )
    query.awaitTermination()
    copied = spark.read.format("klamm").options(**options | {"subscribe": copies}).load()
    left = [path for path in Path(folder, "copies", "klamm-sink").rglob("*") if path.is_file()]
    print("copied", copied.count(), copied.select("key", "value").distinct().count(), "files", len(left))

run_to_the_end()
own_a_group()
input()
run_to_the_end()
write_copies()

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


def members(bootstrap_servers: str, group: str) -> dict[str, bool]:
    """Returns the client ids of a group's members, and whether each member owns the group."""
    config = ClientConfig.from_mapping({"bootstrap.servers": bootstrap_servers})
    with closing(GroupDescriptions(Cluster(config), group)) as descriptions:
        described = descriptions.describe()
    if not isinstance(described, ClassicDescription):
        return {}
    return {
        member.client_id: owner_in(bytes(member.member_assignment)) == member.member_id for member in described.members
    }


def eventually(condition: Callable[[], bool]) -> None:
    """Waits until the condition holds; it depends on another process."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def test_executors_read_and_write_and_a_query_goes_on_from_its_checkpoint(
    topic: Topic, new_topic: Callable[..., Topic], bootstrap_servers: str, tmp_path: Path
) -> None:
    """Two executors of one core read a topic, and a second run continues with the state and offsets of the first.

    A query owns its group while it runs, commits offsets to it, and leaves it at the end. Checkpoints have no checksum
    files, and klamm's file system returns the same status of each file as Hadoop's file system. A batch copies all
    records, and so does a query that writes exactly once, from files that its executors stage.
    """
    group = f"owner-of-{topic.name}"
    topic.produce_records({"key": f"key-{number % 3}", "value": f"{number}"} for number in range(300))
    checkpoints = "fast" if shutil.which("javac") else "plain"
    settings = {
        **SHORT_LIVED_JVM,
        "spark.executor.extraJavaOptions": SHORT_LIVED_JVM["spark.driver.extraJavaOptions"],
        "spark.sql.shuffle.partitions": "2",  # each partition has a state file, and three keys need no 200
    }
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    arguments = [bootstrap_servers, topic.name, new_topic(3).name, str(tmp_path), checkpoints]
    process = subprocess.Popen(
        [sys.executable, str(script), *arguments, json.dumps(settings)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        first = [process.stdout.readline().strip() for _ in range(3)]
        assert all(first), (first, process.communicate(timeout=200)[1][-3000:])
        while_owned = members(bootstrap_servers, group), topic.committed(group) == topic.ends()
        topic.produce_records([{"key": "key-0", "value": "again"}])
        process.stdin.write("go on\n")
        process.stdin.flush()
        first.append(process.stdout.readline().strip())
        # The planning process outlives the query for a moment, in which it commits and leaves the group.
        eventually(lambda: not members(bootstrap_servers, group) and topic.committed(group) == topic.ends())
        printed, errors = process.communicate("go on\n", timeout=200)
    finally:
        process.kill()
    application = first[2].rpartition(" ")[2]
    assert first == [
        "rows 300",
        "counts [('key-0', 100), ('key-1', 100), ('key-2', 100)]",
        f"owned 300 as {application}",
        "owned 301",
    ], errors[-3000:]
    assert while_owned == ({f"spark-{application}": True}, True)
    assert printed.splitlines() == [
        "counts [('key-0', 101), ('key-1', 100), ('key-2', 100)]",
        "copied 602 301 files 0",
        f"through {'CheckpointLocalFs' if checkpoints == 'fast' else 'RawLocalFs'}",
        "checksum files 0",
    ], errors[-3000:]
