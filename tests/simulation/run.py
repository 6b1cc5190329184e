"""Runs one seed or many seeds, and reports the outcomes."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Final, TypeAlias

from tests.simulation.brokers.world import BrokerWorld
from tests.simulation.bugs import BUGS_OF
from tests.simulation.clusters.replicated import ReplicaWorld
from tests.simulation.clusters.world import ClusterWorld
from tests.simulation.delivery.world import DeliveryWorld
from tests.simulation.logs.world import LogWorld
from tests.simulation.notes import field_names, in_words, shorten, without_addresses
from tests.simulation.violation import EXCEPTION, Violation
from tests.simulation.world import World

__all__ = ["MOST_UNSETTLED", "WORLDS", "Outcome", "run_seed", "run_seeds", "settle_too_seldom"]

AnyWorld: TypeAlias = World | LogWorld | BrokerWorld | ClusterWorld | DeliveryWorld

WORLDS: Final[Mapping[str, type[AnyWorld]]] = {
    "groups": World,
    "log": LogWorld,
    "broker": BrokerWorld,
    "cluster": ClusterWorld,
    "replicas": ReplicaWorld,
    "delivery": DeliveryWorld,
}
"""Kinds of worlds by name: coordinators on simulated logs, real logs on a simulated disk, a broker that is real from
its connections to its files, several of them, several that replicate their partitions, and workers that handle the
records of a topic.
"""

_SEEDS_PER_TASK: Final = 8
_CHARACTERS: Final = 400
"""Maximum length of a report's line; `--trace` shows everything."""
_FRAMES: Final = 8
"""The innermost calls of an exception that a report shows: those around them are the same in each world."""

MOST_UNSETTLED: Final = 0.2
"""The largest share of worlds with unlimited faults that may not be in order again at the end."""
_FEWEST_JUDGED: Final = 10
"""In fewer worlds than these, chance decides the share."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one seed's world."""

    seed: int
    steps: int
    simulated_ms: float
    checksum: int
    """The checksum of all notes, if it was requested."""
    invariant: int | None = None
    """The number of the violated invariant, if there is one; see `Violation` for 0 and `EXCEPTION`."""
    failure: str = ""
    has_settled: bool | None = None
    """Whether the brokers of a world with unlimited faults were in order again after all faults had ended; if not, the
    checks of the end did not run. None for other worlds, and for a world with a violation."""

    @property
    def is_ok(self) -> bool:
        """Whether the world had no violation."""
        return self.invariant is None


class _ErrorsOfRuntime(logging.Handler):
    """A log handler that reports exceptions in a shard as findings; the runtime itself answers clients anyway."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        self._world.checkers.fail(Violation(EXCEPTION, self.format(record)))


@contextmanager
def _listening(world: AnyWorld) -> Iterator[None]:
    if not isinstance(world, World):
        yield
        return
    logger = logging.getLogger("klamm.runtime")
    handler = _ErrorsOfRuntime(world)
    level, propagates = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagates


def run_seed(
    seed: int,
    *,
    kind: str = "groups",
    bug: str | None = None,
    listener: Callable[[str], None] | None = None,
    sums: bool = False,
    faults: str | None = None,
) -> Outcome:
    """Runs the world of one seed to its end or first violation. `bug` names a bug of `BUGS_OF[kind]` to plant.

    `faults` decides which faults a world of replicas has: `majority`, `unlimited`, or None if the seed decides.
    """
    with nullcontext() if bug is None else BUGS_OF[kind][bug]():
        if kind == "replicas":
            world: AnyWorld = ReplicaWorld(seed, listener=listener, sums=sums, faults=faults)
        else:
            world = WORLDS[kind](seed, listener=listener, sums=sums)
        loop = world.loop
        try:
            with _listening(world):
                world.run()
        except Violation as violation:
            return Outcome(
                seed,
                loop.step,
                loop.now_ms,
                world.notes.checksum,
                violation.invariant,
                _report(world, str(violation), bug, faults),
            )
        except Exception:
            # An exception is a finding too: the next seeds still run.
            what = f"an exception that nobody expected\n{traceback.format_exc(limit=-_FRAMES).rstrip()}"
            report = _report(world, what, bug, faults)
            return Outcome(seed, loop.step, loop.now_ms, world.notes.checksum, EXCEPTION, report)
        has_settled = world.has_settled if isinstance(world, ReplicaWorld) and world.is_unlimited else None
        return Outcome(seed, loop.step, loop.now_ms, world.notes.checksum, has_settled=has_settled)


def settle_too_seldom(settled: int, unsettled: int) -> bool:
    """Returns whether more worlds with unlimited faults than `MOST_UNSETTLED` were not in order again at the end."""
    return settled + unsettled >= _FEWEST_JUDGED and unsettled > MOST_UNSETTLED * (settled + unsettled)


def _report(world: AnyWorld, what: str, bug: str | None, faults: str | None) -> str:
    loop = world.loop
    kind = next(name for name, each in WORLDS.items() if type(world) is each)
    again = f"python -m tests.simulation --world {kind} --seeds {world.seed}" + (f" --bug '{bug}'" if bug else "")
    again += f" --faults {faults}" if faults and kind == "replicas" else ""
    found = f"seed {world.seed}, step {loop.step}, {loop.now_ms:.0f} ms: {what}".replace("\n", "\n  ").splitlines()
    lines = (
        *found,
        "the world:",
        *_plan(world.plan),
        *(_plan(world.cluster) if isinstance(world, ClusterWorld) else ()),
        "the last that happened:",
        *world.notes.last(),
        *found,
        f"to see it again: {again}    (with --trace for all that happened)",
    )
    return "\n".join(shorten(without_addresses(line), _CHARACTERS) for line in lines)


def _plan(plan: object) -> Iterator[str]:
    """Yields the lines of the plan; each element of a tuple has its own line."""
    for name in field_names(plan):
        value = getattr(plan, name)
        if isinstance(value, tuple):
            yield f"  {name}:"
            yield from (f"    {in_words(each)}" for each in value)
        else:
            yield f"  {name}: {in_words(value)}"


def run_seeds(
    seeds: Iterable[int],
    *,
    kind: str = "groups",
    bug: str | None = None,
    processes: int = 1,
    faults: str | None = None,
) -> Iterator[Outcome]:
    """Runs many seeds; with several processes the order of the outcomes is arbitrary."""
    if processes == 1:
        for seed in seeds:
            yield run_seed(seed, kind=kind, bug=bug, faults=faults)
        return
    with get_context("fork").Pool(processes) as pool:
        yield from pool.imap_unordered(_Run(kind, bug, faults), seeds, _SEEDS_PER_TASK)


class _Run:
    """`run_seed` for a pool of processes."""

    def __init__(self, kind: str, bug: str | None, faults: str | None) -> None:
        self._kind = kind
        self._bug = bug
        self._faults = faults

    def __call__(self, seed: int) -> Outcome:
        return run_seed(seed, kind=self._kind, bug=self._bug, faults=self._faults)
