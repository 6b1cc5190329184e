"""The id of the Spark application that a process belongs to, and how the source gets it.

Spark does not pass the id to a Python source. YARN and Kubernetes set it in the driver's environment. For other
resource managers, `register` puts it into the environment that Spark gives to the source's processes.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from klamm.spark.query_checkpoints import SOCKET_VARIABLE, answer_processes, checkpoints_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["application_id", "register"]

_OURS: Final = "KLAMM_SPARK_APPLICATION_ID"
# Spark 4.3 puts these into the environment of a registered source each time when a query starts, without a lock. Two
# queries that start at the same time can break a map that has to grow, and then every task of the session fails with
# OptionalDataException. If the keys exist, Spark only replaces their values, which breaks nothing.
_SET_BY_SPARK: Final = {
    "SPARK_AUTH_SOCKET_TIMEOUT": "15",
    "SPARK_BUFFER_SIZE": "65536",
    "SPARK_LOCAL_DIRS": "",
    "SPARK_PYTHON_RUNTIME": "PYTHON_WORKER",
}
_YARN_CONTAINER: Final = re.compile(r"container_(?:e\d+_)?(\d+)_(\d+)_")


def register(spark: SparkSession) -> None:
    """Registers `format("klamm")` with a session, and passes on the application id, by which groups show its queries.

    From then on the driver also tells sources where their queries' checkpoints are, so that a stopped query commits its
    last micro-batch if it was finished.

    `klamm.spark.session` calls this for the sessions that it creates. Without it the source works as well, if Spark
    finds the module `pyspark_klamm`. Groups then show the driver's host and process id, unless YARN or Kubernetes sets
    the application id.
    """
    from klamm.spark.data_source import KlammDataSource

    context = spark.sparkContext
    context.environment[_OURS] = str(context.applicationId)
    for key, value in _SET_BY_SPARK.items():
        context.environment.setdefault(key, value)
    if SOCKET_VARIABLE not in context.environment:
        path = answer_processes(lambda wanted: checkpoints_in(spark, wanted))
        if path is not None:
            context.environment[SOCKET_VARIABLE] = path
    spark.dataSource.register(KlammDataSource)


def application_id(environment: Mapping[str, str] | None = None) -> str:
    """Returns the id of the application whose query this process plans; `<host>-<process id>` if it is unknown."""
    told = os.environ if environment is None else environment
    if ours := told.get(_OURS) or told.get("SPARK_APPLICATION_ID"):
        return ours
    container = _YARN_CONTAINER.match(told.get("CONTAINER_ID", ""))
    if container is not None:
        return f"application_{container[1]}_{container[2]}"
    return f"{socket.gethostname()}-{os.getppid()}"
