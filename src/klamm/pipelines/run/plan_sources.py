"""Finds the order in which the plan of a flow has the flow's sources: Spark numbers them so in the checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from klamm.pipelines.declare.flow import Flow
from klamm.pipelines.run.place import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["order_of_sources"]


_RELATION: Final = "StreamingRelationV2"
_OTHER: Final = "another stream"


def order_of_sources(result: DataFrame, place: Place, flow: Flow) -> list[str]:
    """Returns the parameters of the flow's sources in the order of the plan.

    A source that the function uses twice is there twice, as in the checkpoint.
    """
    groups = {place.group(flow, parameter): parameter for parameter in flow.sources}
    leaves = result._jdf.queryExecution().analyzed().collectLeaves()
    order = []
    for leaf in (leaves.apply(index) for index in range(leaves.size())):
        if leaf.isStreaming():
            group = leaf.extraOptions().get("kafka.group.id") if leaf.nodeName() == _RELATION else None
            order.append(groups.get(str(group), _OTHER))
    return order
