"""`python -m tests.simulation`: run seeds, and print of each that fails how to see it again."""

from __future__ import annotations

import argparse
import os
import sys
import time

from tests.simulation.bugs import BUGS
from tests.simulation.run import Outcome, run_seed, run_seeds


def main() -> int:
    """0 if nothing was found, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", default="1..200", help="one seed, or the first and the last: 1..200")
    parser.add_argument("--processes", type=int, default=0, help="how many seeds run at once; 0 for one on each core")
    parser.add_argument("--trace", action="store_true", help="print all that happens")
    parser.add_argument("--bug", choices=sorted(BUGS), help="plant a bug, to see that it is found")
    parser.add_argument("--failures", type=int, default=3, help="stop after so many seeds that failed")
    arguments = parser.parse_args()
    first, _, last = arguments.seeds.partition("..")
    seeds = range(int(first), int(last or first) + 1)
    if arguments.trace:
        return _trace(seeds, arguments.bug)
    processes = min(arguments.processes or len(os.sched_getaffinity(0)), len(seeds))
    return _run(seeds, arguments.bug, processes, arguments.failures)


def _trace(seeds: range, bug: str | None) -> int:
    for seed in seeds:
        print(f"seed {seed}")
        outcome = run_seed(seed, bug=bug, listener=print)
        print(_ending(outcome))
        if not outcome.is_ok:
            return 1
    return 0


def _ending(outcome: Outcome) -> str:
    if outcome.is_ok:
        return f"seed {outcome.seed}: {outcome.steps} steps, {outcome.simulated_ms / 1000:.0f} s, nothing found"
    return outcome.failure.splitlines()[0]


def _run(seeds: range, bug: str | None, processes: int, most_failures: int) -> int:
    started = time.monotonic()
    count = steps = failures = 0
    simulated_ms = 0.0
    for outcome in run_seeds(seeds, bug=bug, processes=processes):
        count += 1
        steps += outcome.steps
        simulated_ms += outcome.simulated_ms
        if not outcome.is_ok:
            failures += 1
            print(f"{outcome.failure}\n", flush=True)
            if failures == most_failures:
                break
    took = time.monotonic() - started
    print(
        f"{count} worlds, {steps} steps, {simulated_ms / 3_600_000:.1f} simulated hours in {took:.1f} s"
        f" ({count / took:.0f} worlds a second); {failures or 'none'} failed"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
