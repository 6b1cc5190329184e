"""`python -m tests.checker`: clients against a klamm that is killed and paused, and what was wrong in what they saw."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections import Counter
from pathlib import Path

from tests.checker.anomaly import Anomaly, describe
from tests.checker.check import check
from tests.checker.facts import Facts
from tests.checker.history import read_history
from tests.checker.run import HISTORY, run

_SHOWN = 5
"""Anomalies of a kind that are printed."""


def main() -> int:
    """0 if nothing was found, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.checker", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long clients work, default 600")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="what clients and faults do")
    parser.add_argument("--fsync", choices=("os", "interval", "ack"), default="os", help="klamm.fsync, default os")
    parser.add_argument("--folder", type=Path, help="of the history and the broker's data, default .cache/checker/SEED")
    parser.add_argument("--history", type=Path, help="run nothing: check this history once more")
    arguments = parser.parse_args()
    if arguments.history is not None:
        return _say(*check(read_history(arguments.history)))
    folder = arguments.folder or Path(".cache/checker") / str(arguments.seed)
    shutil.rmtree(folder / "data", ignore_errors=True)
    print(f"seed {arguments.seed}, {arguments.seconds:.0f} s, the history is {folder / HISTORY}", flush=True)
    report = run(folder, seconds=arguments.seconds, seed=arguments.seed, config={"klamm.fsync": arguments.fsync})
    print(report.summary())
    found = _say(report.facts, report.anomalies)
    if "Traceback" in report.broker_log:
        print(f"the broker's log has a traceback: {folder / 'broker.log'}")
        found = 1
    return found


def _say(facts: Facts, anomalies: list[Anomaly]) -> int:
    counts = Counter(anomaly.kind for anomaly in anomalies)
    for kind in counts:
        print(f"\n{kind}: {counts[kind]}")
        for anomaly in [each for each in anomalies if each.kind == kind][:_SHOWN]:
            print(f"  {anomaly.text}")
            for index in anomaly.indexes:
                print(f"    {describe(facts.entries[index], anomaly.values)}")
    if not anomalies:
        print("nothing found")
    return 1 if anomalies else 0


if __name__ == "__main__":
    sys.exit(main())
