"""A Spark session with the settings that a stream on one machine needs; `format("klamm")` works in any other session
too."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Final

from klamm.spark.application import register
from klamm.spark.checkpoints import FILE_SYSTEM_CLASS, jar_path
from klamm.spark.java import find_java
from klamm.spark.worker_python import worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["session", "settings_for"]

_CHECKPOINT_FILE_SYSTEM: Final = "spark.hadoop.fs.AbstractFileSystem.file.impl"
_CLASS_PATHS: Final = ("spark.driver.extraClassPath", "spark.executor.extraClassPath")
_LOCAL_MASTER = re.compile(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?$")


def session(
    app_name: str = "klamm",
    master: str = "local[*]",
    *,
    fast_checkpoints: bool = False,
    **conf: str | int | float | bool,
) -> SparkSession:
    """The session of this process, made with klamm's settings if there is none yet.

    `conf` holds Spark's own keys and wins over klamm's: `session(**{"spark.sql.shuffle.partitions": 8})`. A session
    that exists already is returned as it is, with nothing but `conf` applied, as far as Spark can change it while it
    runs.
    With `fast_checkpoints`, checkpoints on local disks are written through `klamm.spark.checkpoints`, which forks no
    process for it; its jar has to lie under the same path on every machine of a cluster.
    Raises `klamm.spark.java.JavaNotFound` if there is no Java, and `KlammError` if PySpark is not installed or
    `fast_checkpoints` is asked for and its jar was not built.
    """
    from klamm.spark import require_pyspark

    require_pyspark()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    settings = conf
    existing = SparkSession._instantiatedSession
    if existing is None or existing._sc._jsc is None:  # as `getOrCreate` decides; the second is one that was stopped
        _choose_java_and_python(master)
        builder = builder.appName(app_name).master(master)
        settings = {**settings_for(master), **conf}
        if fast_checkpoints:
            _add_checkpoint_jar(settings)
    for key, value in settings.items():
        builder = builder.config(key, value)
    found = builder.getOrCreate()
    register(found)
    return found


def _choose_java_and_python(master: str) -> None:
    """In the environment, where Spark looks for them when it starts."""
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.path)
    # The workers must be this very Python: Spark's own default, `python3` on PATH, may lack klamm or be another
    # version.
    quick = worker_python()
    if os.environ.get("PYSPARK_PYTHON") in {None, quick}:
        # Also `local-cluster[…]` runs here; other machines do not have what was made here.
        os.environ["PYSPARK_PYTHON"] = quick if master.startswith("local") else sys.executable
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def _add_checkpoint_jar(settings: dict[str, str | int | float | bool]) -> None:
    """Class paths, not `spark.jars`: Hadoop looks its file systems up before Spark has fetched those."""
    jar = str(jar_path())
    settings[_CHECKPOINT_FILE_SYSTEM] = FILE_SYSTEM_CLASS
    for key in _CLASS_PATHS:
        settings[key] = os.pathsep.join(filter(None, (str(settings.get(key, "")), jar)))


def settings_for(master: str) -> dict[str, str]:
    """What `session` sets for this master, before the caller's own settings; each with its reason."""
    settings = {
        # Workers answer over Unix-domain sockets: over TCP each micro-batch loses about 40 ms to Nagle's algorithm
        # meeting delayed acknowledgements.
        "spark.python.unix.domain.socket.enabled": "true",
        # An idle query asks for the latest offsets after each pause of this length; Spark's 10 ms makes that nearly a
        # hundred times a second.
        "spark.sql.streaming.pollingDelay": "25ms",
        # Checkpoints on a local disk are written without a checksum file beside each: half as many files, and half as
        # many processes that Hadoop forks for them (20 instead of 40 a micro-batch without state). Paths on other file
        # systems are not concerned, nor is data: only what goes through Hadoop's FileContext, which are checkpoints.
        _CHECKPOINT_FILE_SYSTEM: "org.apache.hadoop.fs.local.RawLocalFs",
        # Without it Spark refuses a read with `klamm.filterPushdown`; readers without that option see no difference.
        "spark.sql.python.filterPushdown.enabled": "true",
        # Nobody looks at the web interface of a script, and it costs a port and part of the start.
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    local = _LOCAL_MASTER.match(master)
    if local:
        # A worker whose reader has enough rows would print a traceback over Unix-domain sockets.
        settings["spark.python.daemon.module"] = "klamm.spark.worker_daemon"
        # The driver is reached under its host name otherwise, which many laptops and containers cannot resolve.
        settings["spark.driver.host"] = "127.0.0.1"
        settings["spark.driver.bindAddress"] = "127.0.0.1"
        # Spark's 200 tasks per shuffle are meant for a cluster; in one process they cost seconds per micro-batch. A
        # streaming query keeps the number that its checkpoint began with.
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
