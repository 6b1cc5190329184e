"""`klamm pipeline`: init, check, run, status, stop, replay, backfill, test, prepare."""

from __future__ import annotations

import argparse
import importlib
from typing import Final

from klamm.cli.arguments import duration, metrics_address
from klamm.cli.cluster_options import add_cluster_options
from klamm.cli.output import add_output_option
from klamm.spark import require_pyspark

__all__ = ["configure", "run"]

_MODULES: Final = {
    "init": "klamm.cli.pipeline.pipeline_init",
    "check": "klamm.cli.pipeline.pipeline_check",
    "run": "klamm.cli.pipeline.pipeline_runner",
    "status": "klamm.cli.pipeline.pipeline_status",
    "stop": "klamm.cli.pipeline.pipeline_stop",
    "replay": "klamm.cli.pipeline.pipeline_replay",
    "backfill": "klamm.cli.pipeline.pipeline_backfill",
    "test": "klamm.cli.pipeline.pipeline_test",
    "prepare": "klamm.cli.pipeline.pipeline_prepare",
}
_DEFAULT_STOP_TIMEOUT: Final = "5m"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the subcommands of `klamm pipeline`."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)

    init = verbs.add_parser("init", help="write a pipeline to begin with")
    init.add_argument("file", metavar="FILE.py")

    check = verbs.add_parser("check", help="show what a pipeline would do, and what would fail, without running it")
    running = verbs.add_parser("run", help="run a pipeline until SIGTERM or SIGINT")
    status = verbs.add_parser("status", help="show the state, rate and lag of a pipeline that runs anywhere")
    stop = verbs.add_parser("stop", help="end a pipeline that runs anywhere after its micro-batch")

    replay = verbs.add_parser("replay", help="read the dead letters of a pipeline again, after a correction")
    backfill = verbs.add_parser("backfill", help="compute a range of a flow's topics again, next to the live flow")
    test = verbs.add_parser("test", help="run the tests of a pipeline with pytest")
    test.add_argument("file", metavar="FILE.py")
    test.add_argument(
        "pytest_arguments", nargs="*", metavar="ARGUMENT", help="passed on to pytest; options after -- only"
    )

    verbs.add_parser("prepare", help="make the start of Spark on this machine faster, once for each Spark and Java")

    for verb in (check, running, status, stop, replay, backfill):
        verb.add_argument("file", metavar="FILE.py")
        verb.add_argument(
            "--flow", action="append", default=[], dest="flows", metavar="NAME", help="only this flow; may be repeated"
        )
        verb.add_argument(
            "--env", metavar="NAME", help="the environment, such as test or prod (default: that of the context)"
        )
        verb.add_argument(
            "--checkpoints",
            metavar="DIR",
            help="where checkpoints and status are, a path or a URI (default: the pipeline's, else ./klamm-pipelines)",
        )
        # `status` and `stop` find the folder by the environment, which the options of the cluster choose.
        add_cluster_options(verb, takes_properties=verb not in (status, stop))

    for verb in (check, running, replay, backfill):
        verb.add_argument("--master", metavar="URL", help="Spark's master (default local[*])")
    for verb in (check, status, backfill):
        add_output_option(verb)

    running.add_argument("--once", action="store_true", help="read what is there now, and end")
    running.add_argument("--json", action="store_true", help="print one line of JSON for each micro-batch")
    running.add_argument(
        "--metrics", type=metrics_address, metavar="[HOST:]PORT", help="serve figures for Prometheus (host 127.0.0.1)"
    )
    running.add_argument("--ui", action="store_true", help="serve Spark's web interface, usually at port 4040")

    replay.add_argument(
        "--dead-letters", action="store_true", required=True, help="replay the records in the dead-letter topics"
    )
    replay.add_argument(
        "--to-source", action="store_true", help="write the records to the topics that they come from, as they were"
    )

    _configure_backfill(backfill)

    stop.add_argument(
        "--timeout",
        type=duration,
        default=duration(_DEFAULT_STOP_TIMEOUT),
        metavar="DURATION",
        help=f"how long to wait for the end (default {_DEFAULT_STOP_TIMEOUT})",
    )


def _configure_backfill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--from",
        dest="begin",
        required=True,
        metavar="WHEN",
        help="the first records: a time, a duration before now such as 2h, an offset, -N, offsets as JSON, or earliest",
    )
    parser.add_argument("--to", dest="end", metavar="WHEN", help="the end, which is left out itself (default: now)")
    parser.add_argument(
        "--into",
        required=True,
        metavar="SINK",
        help="topic:NAME, a format with a path such as parquet:PATH, or live to replace partitions of the flow's files",
    )
    parser.add_argument("--where", metavar="EXPRESSION", help="only the flow's rows for which this SQL is true")
    parser.add_argument(
        "--append", action="store_true", help="with topic:NAME: write to a topic that has records already"
    )
    parser.add_argument(
        "--force", action="store_true", help="with live: replace partitions also by what may be a part of their data"
    )


def run(arguments: argparse.Namespace) -> int:
    """Runs one verb. Raises KlammError without PySpark, for a wrong pipeline, and for one that can't be reached."""
    try:
        return int(importlib.import_module(_MODULES[arguments.verb]).run(arguments))
    except ModuleNotFoundError:
        require_pyspark()
        raise
