"""Runs the pipeline of a file in a process of its own, which can be killed, then prints the rows of a table.

    python -m tests.support.table_driver '{"file": …, "bootstrap_servers": …, "checkpoints": …, "read": …, "once": …}'

`read` is a SQL expression that reads the table. It is not evaluated if `once` is false: then the pipeline runs until it
is killed.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Final

__all__ = ["ROWS"]

ROWS: Final = "ROWS "
"""The beginning of the line with the rows as JSON."""


def _main(given: dict[str, Any]) -> None:
    from klamm.pipelines.declare.pipeline_file import load_pipeline
    from klamm.pipelines.run.pipeline_run import PipelineRun, chosen_flows
    from klamm.pipelines.run.place import Place
    from klamm.spark import session

    pipeline = load_pipeline(given["file"])
    conf: dict[str, Any] = {"spark.sql.shuffle.partitions": 1, **pipeline.conf}
    spark = session("a table", "local[2]", **conf)
    place = Place.at(
        pipeline.name, bootstrap_servers=given["bootstrap_servers"], checkpoints=given["checkpoints"], environment=None
    )
    run = PipelineRun(spark, pipeline, place, chosen_flows(pipeline, []), once=given["once"])
    assert run.run(), [flow.message for flow in run.flows]
    print(ROWS + json.dumps([row.asDict() for row in spark.sql(given["read"]).collect()]), flush=True)
    spark.stop()


if __name__ == "__main__":
    _main(json.loads(sys.argv[1]))
