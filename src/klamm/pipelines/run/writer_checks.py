"""Refuses what Spark can't write a flow with, before its query starts: no restart would remove such an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from klamm.pipelines.declare.flow import Flow
from klamm.pipelines.declare.sinks import ToFiles, ToFormat
from klamm.pipelines.errors import DeclarationError
from klamm.pipelines.run.error_texts import one_line
from klamm.spark.sink.sink_options import SinkOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["refuse_wrong_topic_options", "refuse_wrong_writer"]

_NOT_FOUND: Final = "DATA_SOURCE_NOT_FOUND"
_BUILT_IN: Final = "memory"
"""A name that only the streaming writer knows."""


def refuse_wrong_writer(spark: SparkSession, flow: Flow) -> None:
    """Raises `DeclarationError` if Spark does not have the format of the flow's sink, or can't read its interval.

    The session is this thread's active one: Spark looks there for the formats of Python sinks.
    """
    if isinstance(flow.sink, ToFiles | ToFormat) and flow.sink.format != _BUILT_IN:
        _refuse_missing_format(spark, flow, flow.sink.format)
    if flow.every is not None:
        _refuse_wrong_interval(spark, flow, flow.every)


def refuse_wrong_topic_options(options: Mapping[str, str], checkpoint: str) -> None:
    """Raises `OptionError` for a wrong option of klamm's sink. The sink itself would raise it in each micro-batch."""
    SinkOptions.parse({**options, "checkpointLocation": checkpoint})


def _refuse_missing_format(spark: SparkSession, flow: Flow, name: str) -> None:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import AnalysisException

    jvm: Any = spark._jvm
    sources = jvm.org.apache.spark.sql.execution.datasources.DataSource
    try:
        sources.lookupDataSource(name, spark._jsparkSession.sessionState().conf())
    except (Py4JJavaError, AnalysisException) as error:
        if not isinstance(error, AnalysisException) and _NOT_FOUND not in str(error):
            raise
        raise DeclarationError(
            f"flow {flow.name}: Spark has no format {name!r} to write. Correct the name, or add the format's jar, for "
            'example with Pipeline(conf={"spark.jars.packages": …})'
        ) from error


def _refuse_wrong_interval(spark: SparkSession, flow: Flow, every: str) -> None:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    jvm: Any = spark._jvm
    try:
        jvm.org.apache.spark.sql.streaming.Trigger.ProcessingTime(every)
    except (Py4JJavaError, PySparkException) as error:
        raise DeclarationError(
            f"flow {flow.name}: every={every!r} is no interval, such as '5 seconds' or '1 minute': "
            f"{one_line(str(error))}"
        ) from error
