"""A flow of the demo as a pipeline for `klamm pipeline run`: flights, checked and joined with airports and weather.

It is the demo's flow `arrivals` with a topic as its sink. The environment variable BENCH_PIPELINE has the names of the
topics and the settings that differ between measurements, as JSON.
"""

from __future__ import annotations

import json
import os
from typing import Any

from examples.flights.pipeline import FLIGHTS, PLAUSIBLE, arrivals

from klamm import pipelines

given: dict[str, Any] = json.loads(os.environ["BENCH_PIPELINE"])
conf = {"spark.sql.session.timeZone": "UTC", "spark.driver.memory": "2g"}
if given["java_options"]:
    conf["spark.driver.extraJavaOptions"] = given["java_options"]
pipeline = pipelines.Pipeline("bench", conf=conf)
pipeline.flow(
    source=pipelines.topic(given["input"], decode=FLIGHTS.decode, max_records_per_batch=given["max_records"]),
    check=PLAUSIBLE,
    sink=pipelines.to_topic(given["output"], key="dest", semantics=given["semantics"]),
    bad_records=given["bad_records"],
)(arrivals)
