"""Faults without a limit: any number of brokers are killed, lose power or stop at once, any links are cut, and brokers
do not reach the metadata store for long.

In such a world nothing needs to make progress while the faults last. What was acknowledged must still be there
afterwards, with one exception: if unsynced records are lost in power failures, or if a topic allows unclean elections,
the metadata must have recorded such an election.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from klamm.protocol.types import BrokerId

if TYPE_CHECKING:
    from tests.simulation.clusters.replicated import ReplicaWorld

__all__ = ["UnlimitedFaults"]

_CHANCE: Final = 0.15
_AWAY_MS: Final = (1, 5, 100, 300)
"""How long brokers are away that fail together."""
_PAUSE_MS: Final = (20, 200, 800)
_CUT_OFF_MS: Final = (20, 200, 600, 1_500)
_LONG_PAUSE_MS: Final = 900
_BREAK_MS: Final = 250
"""When the connections to a broker that stands still break: after its session has ended."""
_ASKS_MS: Final = 100
"""How often a client asks a broker that stands still for committed offsets."""


class UnlimitedFaults:
    """The faults of a world that concern several brokers at once."""

    def __init__(self, world: ReplicaWorld) -> None:
        self._world = world

    def strike(self) -> None:
        """Lets one of the faults occur, or none."""
        world = self._world
        if not world.loop.chance(_CHANCE):
            return
        alive = [number for number, machine in world.machines.items() if machine.is_alive]
        some = self._some(alive)
        if some:
            strikes = (self._fail, self._fail, self._cut_links, self._lose_store, self._pause, self.pause_coordinator)
            world.loop.random.choice(strikes)(some)

    def _some(self, numbers: Sequence[BrokerId]) -> Sequence[BrokerId]:
        """Returns all of them, or some."""
        draw = self._world.loop.random
        return numbers if draw.random() < 0.4 else [number for number in numbers if draw.random() < 0.6]

    def _fail(self, numbers: Sequence[BrokerId]) -> None:
        """Lets brokers fail at once. They may come back before their sessions would have ended."""
        world, draw = self._world, self._world.loop.random
        for number in numbers:
            strike = world.some_strike()
            if strike is None or not world.machines[number].is_alive:
                continue
            world.die(number, strike)
            if draw.random() < 0.5:
                world.come_back(number, draw.choice(_AWAY_MS))

    def _cut_links(self, numbers: Sequence[BrokerId]) -> None:
        """Cuts all links from some brokers to some others, in one direction or both."""
        world = self._world
        others = self._some(list(world.machines))
        world.notes.add("brokers %s do not reach brokers %s", list(numbers), list(others))
        for number in numbers:
            loop = world.machines[number].loop
            for other in others:
                if loop is not None and number != other:
                    world.network.cut(loop, world.machines[other].address)

    def _lose_store(self, numbers: Sequence[BrokerId]) -> None:
        duration_ms = self._world.loop.random.choice(_CUT_OFF_MS)
        for number in numbers:
            self._world.cut_off(number, duration_ms)

    def _pause(self, numbers: Sequence[BrokerId]) -> None:
        """Stops processes for a while. The store does not hear of them meanwhile."""
        self._pause_for(numbers, self._world.loop.random.choice(_PAUSE_MS))

    def pause_coordinator(self, numbers: Sequence[BrokerId]) -> None:
        """Stops the coordinator of the committer for so long that another broker coordinates it meanwhile."""
        coordinator = self._world.coordinator_of_committer()
        if coordinator is not None and coordinator in numbers:
            self._pause_for([coordinator], _LONG_PAUSE_MS)
            # Otherwise clients would wait for answers until the pause is nearly over.
            world = self._world
            world.loop.call_later(_BREAK_MS, partial(world.network.break_links, world.machines[coordinator].loop))

    def _pause_for(self, numbers: Sequence[BrokerId], duration_ms: int) -> None:
        world = self._world
        for number in numbers:
            machine = world.machines[number]
            world.notes.add("broker %d stands still for %d ms", number, duration_ms)
            world.cut_off(number, duration_ms)
            machine.pause()
            # The process finds these requests when it goes on, before it hears of the store.
            for after_ms in range(_ASKS_MS, duration_ms, _ASKS_MS):
                world.loop.call_later(after_ms, partial(world.ask_for_commits, number))
            world.loop.call_later(duration_ms, machine.go_on)
