"""Which Spark application a process belongs to, and how the source gets to know.

Spark does not tell a Python source. The resource managers do (YARN and Kubernetes, in the driver's environment); for
all others `register` hands the id over, in the environment that Spark gives to the source's processes.
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
_YARN_CONTAINER: Final = re.compile(r"container_(?:e\d+_)?(\d+)_(\d+)_")


def register(spark: SparkSession) -> None:
    """Makes `format("klamm")` known to a session, together with its application id, by which groups show its queries.

    From then on the driver also tells sources where their queries' checkpoints are: a query that is stopped commits its
    last micro-batch if that was finished.

    `klamm.spark.session` does this for the sessions that it makes. Without it the source works as well, where Spark
    finds the module `pyspark_klamm`; queries then go by the driver's host and process id unless YARN or Kubernetes
    tells the application's.
    """
    from klamm.spark.source.data_source import KlammDataSource

    context = spark.sparkContext
    context.environment[_OURS] = str(context.applicationId)
    if SOCKET_VARIABLE not in context.environment:
        path = answer_processes(lambda wanted: checkpoints_in(spark, wanted))
        if path is not None:
            context.environment[SOCKET_VARIABLE] = path
    spark.dataSource.register(KlammDataSource)


def application_id(environment: Mapping[str, str] | None = None) -> str:
    """The id of the application whose query is planned in this process; `<host>-<process id>` if nobody told it."""
    told = os.environ if environment is None else environment
    if ours := told.get(_OURS) or told.get("SPARK_APPLICATION_ID"):
        return ours
    container = _YARN_CONTAINER.match(told.get("CONTAINER_ID", ""))
    if container is not None:
        return f"application_{container[1]}_{container[2]}"
    return f"{socket.gethostname()}-{os.getppid()}"
