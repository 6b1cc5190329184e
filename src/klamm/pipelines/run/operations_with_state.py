"""Finds the operations of a DataFrame that keep state from one micro-batch to the next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from klamm.pipelines.run.checkpoint_reader import read_state
from klamm.pipelines.run.state_errors import ROCKSDB_ADVICE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["operations_with_state", "problem_of_state_store"]

_TRANSFORM: Final = frozenset({"TransformWithState", "TransformWithStateInPySpark"})
_STATEFUL: Final = _TRANSFORM | {
    "Aggregate",
    "Deduplicate",
    "DeduplicateWithinWatermark",
    "Distinct",
    "FlatMapGroupsInPandasWithState",
    "FlatMapGroupsWithState",
    "GlobalLimit",
}
_PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB: Final = "RocksDB"


def operations_with_state(frame: DataFrame) -> set[str]:
    """Returns Spark's names of the operations with state, among them joins of two streams."""
    return {name for name, is_stateful in _nodes(frame._jdf.queryExecution().analyzed()) if is_stateful}


def problem_of_state_store(frame: DataFrame, checkpoint: str) -> str | None:
    """Returns what is wrong with the session's state store for this frame; None if nothing is.

    A checkpoint keeps the state store with which it began, whatever the session says. Raises `OSError`.
    """
    if not operations_with_state(frame) & _TRANSFORM or read_state(checkpoint).planned is not None:
        return None
    provider = frame.sparkSession.conf.get(_PROVIDER, "")
    return None if _ROCKSDB in str(provider) else ROCKSDB_ADVICE


def _nodes(plan: Any) -> Iterator[tuple[str, bool]]:
    """Yields the streaming nodes of a plan, and whether they keep state."""
    if not plan.isStreaming():
        return
    name, children = str(plan.nodeName()), plan.children()
    inputs = [children.apply(index) for index in range(children.size())]
    yield name, name in _STATEFUL or (name == "Join" and all(each.isStreaming() for each in inputs))
    for each in inputs:
        yield from _nodes(each)
