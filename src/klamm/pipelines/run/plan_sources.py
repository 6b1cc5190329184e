"""Finds the order in which the plan of a flow has the flow's sources: Spark numbers them so in the checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from klamm.pipelines.declare.flow import Flow
from klamm.pipelines.run.place import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["order_of_sources"]


_RELATION: Final = "StreamingRelationV2"
_OTHER: Final = "another stream"


def order_of_sources(result: DataFrame, place: Place, flow: Flow) -> list[str]:
    """Returns the parameters of the flow's sources in the order of the plan.

    Spark has one source for equal relations, and several for a source that is joined with itself.
    """
    groups = {place.group(flow, parameter): parameter for parameter in flow.sources}
    leaves = result._jdf.queryExecution().analyzed().collectLeaves()
    found: list[Any] = []
    order = []
    for index in range(leaves.size()):
        leaf = leaves.apply(index)
        if not leaf.isStreaming() or any(leaf.equals(each) for each in found):
            continue
        found.append(leaf)
        group = leaf.extraOptions().get("kafka.group.id") if leaf.nodeName() == _RELATION else None
        order.append(groups.get(str(group), _OTHER))
    return order
