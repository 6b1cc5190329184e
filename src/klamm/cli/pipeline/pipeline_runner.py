"""`klamm pipeline run`: runs the flows of a pipeline until they end, or until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import sys
import time

from klamm.cli.pipeline.chosen_pipeline import choose_pipeline, session_for
from klamm.cli.pipeline.run_lines import lines_for
from klamm.cli.pipeline.stop_signals import end_while_spark_starts, stop_on_signals
from klamm.cli.standard_output import discard_output
from klamm.pipelines.errors import PipelineError
from klamm.pipelines.run.pipeline_run import NO_READER, PipelineRun, RunReporter, refuse_run
from klamm.pipelines.run.run_announcement import RunAnnouncement
from klamm.pipelines.run.spark_jvm import stop_session
from klamm.pipelines.status.flow_metrics import FlowMetrics

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    """Runs the flows; returns 1 if one of them has failed.

    The first SIGTERM or SIGINT ends them after their micro-batches, the second one at once. SIGTERM ends the command at
    once while Spark starts. Raises KlammError.
    """
    chosen = choose_pipeline(arguments)
    refuse_run(chosen.place, chosen.flows, time.time_ns() // 1_000_000)  # before Spark starts, which takes long
    end_while_spark_starts()
    metrics = FlowMetrics()
    lines = lines_for(as_json=arguments.json)
    reporters: list[RunReporter] = [lines]
    # Spark's own log repeats each error in hundreds of lines; the file error.txt has the error whole.
    conf = {"spark.log.level": "OFF", **({"spark.ui.enabled": "true"} if arguments.ui else {})}
    spark = None
    try:
        with RunAnnouncement(chosen.place, chosen.flows, once=arguments.once) as announcement:
            if arguments.metrics is not None:
                host, port = arguments.metrics
                bound = metrics.serve(host, port)
                reporters.append(metrics)
                print(f"klamm pipeline: figures for Prometheus at http://{host}:{bound}/metrics", file=sys.stderr)
            spark = session_for(arguments, chosen, **conf)
            if arguments.ui and spark.sparkContext.uiWebUrl is not None:
                print(f"klamm pipeline: Spark's web interface at {spark.sparkContext.uiWebUrl}", file=sys.stderr)
            running = PipelineRun(
                spark,
                chosen.pipeline,
                chosen.place,
                chosen.flows,
                once=arguments.once,
                reporters=reporters,
                runner=announcement.runner,
            )
            stop_on_signals(running)
        try:
            has_succeeded = running.run()
        except BrokenPipeError:
            # Other commands end with status 0 then. A supervisor would take this run for one that ended in order.
            discard_output()
            raise PipelineError(NO_READER) from None
        lines.close()
        for flow in running.flows:
            if flow.message is not None:
                print(f"klamm pipeline: {flow.message}", file=sys.stderr)
        return 0 if has_succeeded else 1
    finally:
        lines.close()
        metrics.close()
        if spark is not None:
            stop_session(spark)
