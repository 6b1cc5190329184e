"""A Spark session with settings for streams on one machine; `format("klamm")` works in any other session, too."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Final

from klamm.spark.application import register
from klamm.spark.checkpoints import FILE_SYSTEM_CLASS, jar_path
from klamm.spark.class_archive import CLASS_PATH, use_archive
from klamm.spark.java import JavaHome, find_java
from klamm.spark.worker_python import worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["CHECKPOINT_FILE_SYSTEM", "session", "settings_for"]

CHECKPOINT_FILE_SYSTEM: Final = "spark.hadoop.fs.AbstractFileSystem.file.impl"
"""The setting for the file system of checkpoints on local disks."""
_CLASS_PATHS: Final = (CLASS_PATH, "spark.executor.extraClassPath")
_LOCAL_MASTER = re.compile(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?$")


def session(
    app_name: str = "klamm",
    master: str = "local[*]",
    *,
    fast_checkpoints: bool = False,
    **conf: str | int | float | bool,
) -> SparkSession:
    """Returns the session of this process; creates one with klamm's settings if there is none.

    `conf` holds Spark's own keys and overrides klamm's settings: `session(**{"spark.sql.shuffle.partitions": 8})`. An
    existing session gets only `conf`, as far as Spark can change these keys in a running session.
    With `fast_checkpoints`, checkpoints on local disks are written through `klamm.spark.checkpoints`, which forks no
    processes. Its jar must have the same path on every machine of a cluster.
    Raises `klamm.spark.java.JavaNotFound` if there is no Java. Raises `KlammError` if PySpark is not installed, or if
    `fast_checkpoints` is set and the jar was not built.
    """
    from klamm.spark import require_pyspark

    require_pyspark()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    settings = conf
    existing = SparkSession._instantiatedSession
    if existing is None or existing._sc._jsc is None:  # as in `getOrCreate`; the second condition: it was stopped
        java = _choose_java_and_python(master)
        builder = builder.appName(app_name).master(master)
        settings = {**settings_for(master), **conf}
        if fast_checkpoints:
            _add_checkpoint_jar(settings)
        if _LOCAL_MASTER.match(master):
            use_archive(settings, java)
    for key, value in settings.items():
        builder = builder.config(key, value)
    found = builder.getOrCreate()
    register(found)
    return found


def _choose_java_and_python(master: str) -> JavaHome:
    """Sets Java and Python in the environment, which Spark reads when it starts. Returns the Java."""
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.path)
    # The workers must run this Python: Spark's default, `python3` on PATH, may lack klamm or be another version.
    quick = worker_python()
    if os.environ.get("PYSPARK_PYTHON") in {None, quick}:
        # `local-cluster[…]` runs on this machine, too; other machines do not have the wrapper script.
        os.environ["PYSPARK_PYTHON"] = quick if master.startswith("local") else sys.executable
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    return java


def _add_checkpoint_jar(settings: dict[str, str | int | float | bool]) -> None:
    """Adds the jar to the class paths; `spark.jars` is too late, since Hadoop looks up its file systems before."""
    jar = str(jar_path())
    settings[CHECKPOINT_FILE_SYSTEM] = FILE_SYSTEM_CLASS
    for key in _CLASS_PATHS:
        paths = [path for path in str(settings.get(key, "")).split(os.pathsep) if path]
        settings[key] = os.pathsep.join(paths if jar in paths else [*paths, jar])


def settings_for(master: str) -> dict[str, str]:
    """Returns the settings that `session` uses for this master, before the caller's own settings."""
    settings = {
        # Over TCP each micro-batch loses about 40 ms to Nagle's algorithm combined with delayed acknowledgements.
        "spark.python.unix.domain.socket.enabled": "true",
        # An idle query asks for the latest offsets after each pause of this length: nearly a hundred times a second
        # with Spark's 10 ms.
        "spark.sql.streaming.pollingDelay": "25ms",
        # Checkpoints on a local disk are written without checksum files: half as many files, and half as many processes
        # that Hadoop forks for them (20 instead of 40 per micro-batch without state). This affects neither other file
        # systems nor data, only checkpoints, since only these use Hadoop's FileContext.
        CHECKPOINT_FILE_SYSTEM: "org.apache.hadoop.fs.local.RawLocalFs",
        # A table of 10,000 records of 1 KB leaves the processor's caches before the sink reads it. Smaller tables would
        # make smaller record batches, where a topic has many partitions.
        "spark.sql.execution.arrow.maxBytesPerBatch": "4m",
        # Without it Spark refuses a read with `klamm.filterPushdown`; readers without that option see no difference.
        "spark.sql.python.filterPushdown.enabled": "true",
        # A script seldom needs the web interface, which costs a port and time at the start.
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    local = _LOCAL_MASTER.match(master)
    if local:
        # Over Unix-domain sockets, a worker whose reader has enough rows would print a traceback.
        settings["spark.python.daemon.module"] = "klamm.spark.worker_daemon"
        # The default is the driver's host name, which many laptops and containers can't resolve.
        settings["spark.driver.host"] = "127.0.0.1"
        settings["spark.driver.bindAddress"] = "127.0.0.1"
        # Spark's default of 200 tasks per shuffle is meant for a cluster; in one process it costs seconds per
        # micro-batch. A streaming query keeps the number from its checkpoint.
        settings["spark.sql.shuffle.partitions"] = str(_threads_of(local.group(1)))
    return settings


def _threads_of(count: str | None) -> int:
    if count is None:
        return 1
    return _usable_processors() if count == "*" else max(1, int(count))


def _usable_processors() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        return os.cpu_count() or 1
