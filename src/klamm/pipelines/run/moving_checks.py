"""Finds checks that may give another result for the same record at another time.

A flow and its dead letters judge each record, each in its own micro-batch. If they disagree, the record is in neither
output.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from klamm.pipelines.declare.flow import Flow
from klamm.pipelines.errors import DeclarationError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["refuse_moving_check"]

_OF_NOW: Final = {
    "CurrentDate": "current_date()",
    "CurrentTime": "current_time()",
    "CurrentTimestamp": "current_timestamp()",
    "LocalTimestamp": "localtimestamp()",
    "Now": "now()",
}
"""Spark's expressions of the present time, by the name of their class."""


def refuse_moving_check(flow: Flow, frame: DataFrame, check: Column) -> None:
    """Raises `DeclarationError` if the check of a flow with dead letters depends on the time or on chance."""
    if not flow.writes_dead_letters:
        return
    expressions = frame.select(check)._jdf.queryExecution().analyzed().expressions()
    found = [name for index in range(expressions.size()) for name in _moving(expressions.apply(index))]
    if found:
        raise DeclarationError(
            f"flow {flow.name}: its check uses {', '.join(dict.fromkeys(found))}, which the flow and its dead letters "
            "evaluate at different moments, so that a record could be in neither output. Compare with the time of the "
            'record (_record.timestamp), or declare bad_records="drop" or "fail"'
        )


def _moving(expression: Any) -> Iterator[str]:
    name = expression.getClass().getSimpleName()
    children = expression.children()
    inputs = [children.apply(index) for index in range(children.size())]
    if name in _OF_NOW:
        yield _OF_NOW[name]
    elif not expression.deterministic() and all(each.deterministic() for each in inputs):
        yield f"{expression.prettyName()}()"
    for each in inputs:
        yield from _moving(each)
