"""`python -m tests.simulation`: runs seeds, and prints for each failed seed how to reproduce the failure. With
--planted: plants each bug in turn, and prints how many of the seeds find it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from tests.simulation.bugs import BUGS_OF
from tests.simulation.clusters.plan import MAJORITY, UNLIMITED
from tests.simulation.run import MOST_UNSETTLED, WORLDS, Outcome, run_seed, run_seeds, settle_too_seldom
from tests.simulation.violation import EXCEPTION

_NAMES = {EXCEPTION: "exceptions", 0: "other rules"}
"""What a violation without a number in the list of invariants is called."""


def main() -> int:
    """Returns 1 if a seed failed, else 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", default="1..200", help="one seed, or the first and the last: 1..200")
    parser.add_argument("--world", choices=sorted(WORLDS), help="worlds of this kind only")
    parser.add_argument("--processes", type=int, default=0, help="how many seeds run at once; 0 for one on each core")
    parser.add_argument("--trace", action="store_true", help="print all that happens")
    bugs = sorted({bug for of_kind in BUGS_OF.values() for bug in of_kind})
    parser.add_argument("--bug", choices=bugs, help="plant a bug, to see that it is found")
    parser.add_argument("--planted", action="store_true", help="plant each bug, and count the seeds that find it")
    parser.add_argument(
        "--faults",
        choices=(MAJORITY, UNLIMITED),
        help="which faults worlds of replicas have; otherwise the seed decides",
    )
    parser.add_argument("--failures", type=int, default=3, help="stop after so many seeds that failed")
    arguments = parser.parse_args()
    first, _, last = arguments.seeds.partition("..")
    seeds = range(int(first), int(last or first) + 1)
    kinds = [arguments.world] if arguments.world else list(WORLDS)
    if arguments.bug:
        kinds = [kind for kind in kinds if arguments.bug in BUGS_OF[kind]]
    if arguments.trace:
        return max(_trace(kind, seeds, arguments.bug, arguments.faults) for kind in kinds)
    processes = min(arguments.processes or len(os.sched_getaffinity(0)), len(seeds))
    if arguments.planted:
        for kind in kinds:
            for bug in BUGS_OF[kind]:
                if arguments.bug in (None, bug):
                    print(_count(kind, seeds, bug, processes, arguments.faults), flush=True)
        return 0
    return max(_run(kind, seeds, arguments.bug, processes, arguments.failures, arguments.faults) for kind in kinds)


def _count(kind: str, seeds: range, bug: str, processes: int, faults: str | None) -> str:
    """Returns one row of the table in `docs/explanation/simulation.md`."""
    outcomes = run_seeds(seeds, kind=kind, bug=bug, processes=processes, faults=faults)
    found = {each.seed: each.invariant for each in outcomes}
    invariants = sorted({invariant for invariant in found.values() if invariant is not None})
    names = " ".join(_NAMES.get(invariant, f"I{invariant}") for invariant in invariants)
    runs = "".join("." if found[seed] is None else " " for seed in seeds).split()
    count = sum(invariant is not None for invariant in found.values())
    description = " ".join((BUGS_OF[kind][bug].__doc__ or bug).split("\n\n")[0].split())
    return f"| {description} | {count} of {len(seeds)}, {names} | {max(map(len, runs), default=0)} |"


def _trace(kind: str, seeds: range, bug: str | None, faults: str | None) -> int:
    for seed in seeds:
        print(f"seed {seed}, a world of the kind {kind}")
        outcome = run_seed(seed, kind=kind, bug=bug, listener=print, faults=faults)
        print(_ending(outcome))
        if not outcome.is_ok:
            return 1
    return 0


def _ending(outcome: Outcome) -> str:
    if outcome.is_ok:
        return f"seed {outcome.seed}: {outcome.steps} steps, {outcome.simulated_ms / 1000:.0f} s, nothing found"
    return outcome.failure.splitlines()[0]


def _run(  # noqa: PLR0917 - what the command line says
    kind: str, seeds: range, bug: str | None, processes: int, most_failures: int, faults: str | None
) -> int:
    started = time.monotonic()
    count = steps = failures = settled = unsettled = 0
    simulated_ms = 0.0
    for outcome in run_seeds(seeds, kind=kind, bug=bug, processes=processes, faults=faults):
        count += 1
        steps += outcome.steps
        simulated_ms += outcome.simulated_ms
        settled += outcome.has_settled is True
        unsettled += outcome.has_settled is False
        if not outcome.is_ok:
            failures += 1
            print(f"{outcome.failure}\n", flush=True)
            if failures == most_failures:
                break
    took = time.monotonic() - started
    print(
        f"{kind}: {count} worlds, {steps} steps, {simulated_ms / 3_600_000:.1f} simulated hours in {took:.1f} s"
        f" ({count / took:.1f} worlds a second); {failures or 'none'} failed"
        + (f", {unsettled} of {settled + unsettled} did not settle in the end" if settled or unsettled else "")
    )
    if settle_too_seldom(settled, unsettled):
        print(f"{kind}: more than {MOST_UNSETTLED:.0%} did not settle: too often, the checks of the end did not run")
        return 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
