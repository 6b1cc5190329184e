"""The pipeline, the flows and the place that the options of `klamm pipeline` name."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from klamm.cli.errors import UsageError
from klamm.client.errors import ClientConfigError
from klamm.insight.security_settings import security_settings
from klamm.pipelines.declare.flow import Flow
from klamm.pipelines.declare.pipeline import Pipeline
from klamm.pipelines.declare.pipeline_file import load_pipeline
from klamm.pipelines.errors import PipelineError
from klamm.pipelines.run.error_texts import one_line
from klamm.pipelines.run.pipeline_run import chosen_flows
from klamm.pipelines.run.place import Place
from klamm.pipelines.run.run_settings import RUN_SETTINGS
from klamm.spark.checkpoints import is_built
from klamm.spark.class_archive import lacks_archive
from klamm.spark.java import find_java
from klamm.spark.session_builder import CHECKPOINT_FILE_SYSTEM

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import SparkSession

__all__ = ["Chosen", "can_have_fast_checkpoints", "choose_pipeline", "session_for"]

# Prefixes of the properties that Spark's processes get; others are for librdkafka.
_PASSED_ON = ("security.", "ssl.", "sasl.", "enable.ssl.")
_NOT_PREPARED = (
    "klamm pipeline: Spark starts faster after `klamm pipeline prepare`, which takes a minute, once on this machine"
)


class Chosen(NamedTuple):
    """What a command works on."""

    pipeline: Pipeline
    flows: list[Flow]
    place: Place


def choose_pipeline(arguments: argparse.Namespace) -> Chosen:
    """Loads the file, and returns its pipeline with the flows and the place. Raises KlammError."""
    from klamm.spark import require_pyspark

    require_pyspark()
    pipeline = load_pipeline(arguments.file)
    flows = chosen_flows(pipeline, arguments.flows)
    place = Place.at(
        pipeline.name,
        bootstrap_servers=arguments.bootstrap_server,
        checkpoints=arguments.checkpoints or pipeline.checkpoints,
        environment=arguments.env or arguments.environment,
        client_options=_client_options(arguments.properties),
    )
    return Chosen(pipeline, flows, place)


def session_for(arguments: argparse.Namespace, chosen: Chosen, **conf: str) -> SparkSession:
    """Returns a Spark session for the pipeline; its own settings override `conf`, those of spark-submit both.

    Its time zone is UTC unless they say otherwise.

    Raises `PipelineError` if Spark does not start.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from klamm.spark import session

    name = f"klamm pipeline {chosen.place.pipeline}"
    try:
        submitted = _submitted()
        settings: dict[str, Any] = {**RUN_SETTINGS, **conf, **chosen.pipeline.conf, **submitted}
        master = arguments.master or submitted.get("spark.master", "local[*]")
        has_fast_checkpoints = can_have_fast_checkpoints(master, settings, submitted)
        if _is_new_local_jvm(master, submitted) and lacks_archive(settings, find_java()):
            print(_NOT_PREPARED, file=sys.stderr)
        return session(name, master, fast_checkpoints=has_fast_checkpoints, **settings)
    except (Py4JError, PySparkException, ConnectionError) as error:
        raise PipelineError(f"Spark does not start: {one_line(str(error))}") from error


def can_have_fast_checkpoints(master: str, settings: Mapping[str, Any], submitted: Mapping[str, str]) -> bool:
    """Returns whether a new JVM on this machine alone can have klamm's file system for checkpoints."""
    return _is_new_local_jvm(master, submitted) and CHECKPOINT_FILE_SYSTEM not in settings and is_built()


def _is_new_local_jvm(master: str, submitted: Mapping[str, str]) -> bool:
    return not submitted and (master == "local" or master.startswith("local["))


def _submitted() -> dict[str, str]:
    """Returns the settings of spark-submit, if it has started this process."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # connects to the JVM, whose properties are the settings
    left_out = ("spark.app.name", "spark.submit.")
    return {key: value for key, value in SparkConf().getAll() if not key.startswith(left_out)}


def _client_options(properties: Iterable[tuple[str, str]]) -> dict[str, str]:
    given = dict(properties)
    for key in given:
        if not key.startswith(_PASSED_ON):
            raise UsageError(
                f"{key}: of the properties of a context and -X, Spark's source and sink get those of TLS and SASL. Use "
                "the argument options of topic() and to_topic() for others"
            )
    if not given:
        return {}
    try:
        return {f"kafka.{key}": value for key, value in security_settings(given).items()}
    except ClientConfigError as error:
        raise UsageError(f"-X: {error}") from None
