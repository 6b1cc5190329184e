"""What a test of a pipeline writes to its broker, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from klamm.pipelines import Pipeline
from klamm.testing import Broker
from klamm.testing.pipeline_harness import PipelineHarness


def test_more_records_than_a_producer_queues(tmp_path: Path) -> None:
    """A test may write more records at once than the queue of a producer holds (100,000). They keep their order."""
    no_spark: Any = None
    with Broker() as broker:
        harness = PipelineHarness(no_spark, Pipeline("flights"), broker.bootstrap_servers, tmp_path)
        count = 120_000
        harness.produce("flights", (str(number) for number in range(count)))
        values = [record.value for record in harness.records("flights")]
    assert values == [b"%d" % number for number in range(count)]
