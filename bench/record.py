"""The recorded figures of a run as JSON. A page of the documentation can be written from them without measuring."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from bench.report import Outcome
from bench.run import Published, RowResult
from bench.workloads import WORKLOADS

__all__ = ["read_record", "write_record"]


def write_record(outcome: Outcome, target: Path) -> None:
    """Writes the figures of every round to `target`."""
    record = {
        "facts": outcome.facts,
        "peers": outcome.peers,
        "missing": outcome.missing,
        "rows": {name: asdict(result) for name, result in outcome.results.items()},
    }
    target.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def read_record(source: Path) -> Outcome:
    """Returns the run that `write_record` has written to `source`, with its rows in the order of the tables."""
    record = json.loads(source.read_text(encoding="utf-8"))
    results = {
        name: RowResult(
            row["rounds"],
            row["reasons"],
            {key: Published(**published) for key, published in row.get("published", {}).items()},
        )
        for name, row in record["rows"].items()
    }
    workloads = [workload for workload in WORKLOADS if workload.name in results]
    return Outcome(workloads, results, record["peers"], record["missing"], record["facts"])
