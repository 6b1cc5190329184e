"""Planted bugs that worlds of several brokers must find."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, Final
from unittest.mock import patch

from tests.simulation.brokers.bugs import BROKER_BUGS

from klamm.broker.partitions.led_topic import LedTopic
from klamm.broker.partitions.partition import Partition
from klamm.metadata import plan_writer
from klamm.metadata.entries import put_writer
from klamm.metadata.image import TopicImage
from klamm.metadata.metadata_store import Change, OutcomeUnknown, Plan
from klamm.metadata.plan_writer import PlanWriter
from klamm.protocol.types import PartitionIndex
from klamm.runtime.coordinator_runtime import CoordinatorRuntime

__all__ = ["CLUSTER_BUGS"]


@contextmanager
def _do_not_resign() -> Iterator[None]:
    """A leader does not resign when another broker leads its partition."""

    def follow(led: LedTopic, image: TopicImage) -> list[Partition]:
        led.image = image
        led.partitions += [None] * (len(image.partitions) - len(led.partitions))
        return []

    with patch.object(LedTopic, "follow", follow):
        yield


@contextmanager
def _coordinate_after_the_resignation() -> Iterator[None]:
    """A coordinator answers from memory after it has resigned."""

    def unload(runtime: CoordinatorRuntime[Any], partition: PartitionIndex) -> None:
        pass

    with patch.object(CoordinatorRuntime, "unload", unload):
        yield


@contextmanager
def _believe_in_an_unknown_outcome() -> Iterator[None]:
    """A metadata transaction of unknown outcome counts as done, so two brokers give out the same producer ids."""

    async def transact(writer: PlanWriter, conditions: Mapping[str, int], changes: Sequence[Change]) -> int:
        writer._number += 1
        written = [*changes, put_writer(writer._incarnation, writer._number)]
        try:
            return await writer._store.transact(conditions, written)
        except OutcomeUnknown:
            return writer._seen[1]

    with patch.object(PlanWriter, "_transact", transact):
        yield


@contextmanager
def _show_parts() -> Iterator[None]:
    """The topic's entry is written first, and its partitions in later transactions."""
    split = plan_writer._split

    def wrong(plan: Plan[Any], size: int) -> Any:
        return split(replace(plan, commit_key=None, changes=list(reversed(plan.changes))), size)

    with patch.object(plan_writer, "_split", wrong):
        yield


CLUSTER_BUGS: Final[Mapping[str, Callable[[], AbstractContextManager[None]]]] = {
    "do not resign": _do_not_resign,
    "coordinate after the resignation": _coordinate_after_the_resignation,
    "believe in an unknown outcome": _believe_in_an_unknown_outcome,
    "show parts": _show_parts,
    "forget a marker": BROKER_BUGS["forget a marker"],
}
