"""`python -m tests.checker`: runs clients against a klamm that is killed and paused, and reports the anomalies they
saw."""

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
from tests.checker.workload.roles import Cast
from tests.interop.java_client import compile_client
from tests.support import faulty_disk, kafka_broker

_SHOWN = 5
"""Number of anomalies that are printed for each kind."""
_NOTICEABLE = 1.5


def main() -> int:
    """Returns 0 if no anomaly was found, 1 if one was found, and 2 if none was found but the run ended early."""
    parser = argparse.ArgumentParser(prog="python -m tests.checker", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long clients work, default 600")
    parser.add_argument(
        "--rounds", type=int, default=0, help="run again, with the next seed, until so many faults have struck"
    )
    parser.add_argument("--seed", type=int, default=int(time.time()), help="what clients and faults do")
    parser.add_argument("--fsync", choices=("os", "interval", "ack"), default="os", help="klamm.fsync, default os")
    parser.add_argument(
        "--power", action="store_true", help="each kill is a power cut, which takes what was not synced"
    )
    parser.add_argument("--workers", type=int, default=1, help="how many workers serve, default one broker")
    parser.add_argument("--cluster", action="store_true", help="three brokers serve, with replicas and an etcd")
    parser.add_argument("--etcd-members", type=int, choices=(1, 3), default=1, help="of the cluster's etcd, default 1")
    parser.add_argument("--java", action="store_true", help="Java clients take part, if there is a JDK and Maven")
    parser.add_argument("--folder", type=Path, help="of the history and the broker's data, default .cache/checker/SEED")
    parser.add_argument("--history", type=Path, help="run nothing: check this history once more")
    arguments = parser.parse_args()
    if arguments.history is not None:
        return _say(*check(read_history(arguments.history)))
    if arguments.power and (reason := faulty_disk.why_not()) is not None:
        parser.error(f"--power: {reason}")
    if arguments.power and arguments.workers > 1:
        parser.error("--power takes no --workers")
    if arguments.cluster and (arguments.power or arguments.workers > 1):
        parser.error("--cluster takes no --power and no --workers")
    status, struck = 0, 0
    while True:
        found, faults, is_last = _run(arguments)
        status, struck = max(status, found), struck + faults
        if found == 1 or is_last or struck >= arguments.rounds:
            break
        print(f"{struck} of {arguments.rounds} faults have struck", flush=True)
        arguments.seed += 1
    return status


def _run(arguments: argparse.Namespace) -> tuple[int, int, bool]:
    """Runs once. Returns the exit status of the run, how many faults have struck, and whether a signal ended it."""
    folder = arguments.folder or Path(".cache/checker") / str(arguments.seed)
    for data in (folder / "data", *folder.glob("broker-*")):
        shutil.rmtree(data, ignore_errors=True)
    print(f"seed {arguments.seed}, {arguments.seconds:.0f} s, the history is {folder / HISTORY}", flush=True)
    report = run(
        folder,
        seconds=arguments.seconds,
        seed=arguments.seed,
        config={"klamm.fsync": arguments.fsync},
        has_power_cuts=arguments.power,
        workers=arguments.workers,
        etcd_members=arguments.etcd_members if arguments.cluster else 0,
        cast=Cast.whole(_java_classpath() if arguments.java else None),
    )
    if report.slowness > _NOTICEABLE:
        print(f"the machine was {report.slowness:.1f} times slower than an idle one: time limits were as much longer")
    print(report.summary())
    found = _say(report.facts, report.anomalies)
    if "Traceback" in report.broker_log:
        print(f"the broker's log has a traceback: see {folder}")
        found = 1
    return found, max(1, sum(report.faults.values())), report.was_interrupted


def _java_classpath() -> str | None:
    try:
        return compile_client(kafka_broker.kafka_classpath())
    except kafka_broker.KafkaUnavailable as error:
        print(f"without Java clients: {error}", flush=True)
        return None


def _say(facts: Facts, anomalies: list[Anomaly]) -> int:
    counts = Counter(anomaly.kind for anomaly in anomalies)
    for kind in counts:
        print(f"\n{kind}: {counts[kind]}")
        for anomaly in [each for each in anomalies if each.kind == kind][:_SHOWN]:
            print(f"  {anomaly.text}")
            for index in anomaly.indexes:
                print(f"    {describe(facts.entries[index], anomaly.values)}")
    if not anomalies:
        print("nothing found" if facts.is_whole else f"nothing found; the run ended early: {facts.end_reason}")
    if anomalies:
        return 1
    return 0 if facts.is_whole else 2


if __name__ == "__main__":
    sys.exit(main())
