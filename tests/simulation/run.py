"""Runs seeds, one or very many, and says what came out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Final

from tests.simulation.bugs import BUGS
from tests.simulation.logs.world import LogWorld
from tests.simulation.violation import Violation
from tests.simulation.world import World

__all__ = ["WORLDS", "Outcome", "run_seed", "run_seeds"]

WORLDS: Final[Mapping[str, type[World | LogWorld]]] = {"groups": World, "log": LogWorld}
"""Kinds of worlds by their names: coordinators over simulated logs, and real logs over a simulated disk."""

_SEEDS_PER_TASK: Final = 8


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the world of one seed ended."""

    seed: int
    steps: int
    simulated_ms: float
    checksum: int
    """Over all notes, if they were summed up."""
    invariant: int | None = None
    """The number of the invariant that was broken, if one was."""
    failure: str = ""

    @property
    def is_ok(self) -> bool:
        """Whether nothing was found."""
        return self.invariant is None


class _ErrorsOfRuntime(logging.Handler):
    """The runtime answers a client whatever its shard does; here an exception in a shard is a finding."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        self._world.checkers.fail(Violation(0, self.format(record)))


@contextmanager
def _listening(world: World | LogWorld) -> Iterator[None]:
    if isinstance(world, LogWorld):
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
) -> Outcome:
    """Run the world of one seed to its end, or to the first violation. `bug` names one of `BUGS` to plant."""
    with nullcontext() if bug is None else BUGS[bug]():
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
                _report(world, str(violation), bug),
            )
        except Exception as error:
            error.add_note(_report(world, "an exception", bug))
            raise
        return Outcome(seed, loop.step, loop.now_ms, world.notes.checksum)


def _report(world: World | LogWorld, what: str, bug: str | None) -> str:
    loop = world.loop
    kind = next(name for name, each in WORLDS.items() if isinstance(world, each))
    again = f"python -m tests.simulation --world {kind} --seeds {world.seed}" + (f" --bug '{bug}'" if bug else "")
    return "\n".join(
        (
            f"seed {world.seed}, step {loop.step}, {loop.now_ms:.0f} ms: {what}",
            f"the world: {world.plan}",
            "the last that happened:",
            *world.notes.last(),
            f"seed {world.seed}, step {loop.step}, {loop.now_ms:.0f} ms: {what}",
            f"to see it again: {again}    (with --trace for all that happened)",
        )
    )


def run_seeds(
    seeds: Iterable[int], *, kind: str = "groups", bug: str | None = None, processes: int = 1
) -> Iterator[Outcome]:
    """Run many seeds, in any order if there are several processes."""
    if processes == 1:
        for seed in seeds:
            yield run_seed(seed, kind=kind, bug=bug)
        return
    with get_context("fork").Pool(processes) as pool:
        yield from pool.imap_unordered(_Run(kind, bug), seeds, _SEEDS_PER_TASK)


class _Run:
    """`run_seed` for a pool of processes."""

    def __init__(self, kind: str, bug: str | None) -> None:
        self._kind = kind
        self._bug = bug

    def __call__(self, seed: int) -> Outcome:
        return run_seed(seed, kind=self._kind, bug=self._bug)
