"""One flow of a pipeline: a function from DataFrame to DataFrame, with its sources and its sink."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from klamm.pipelines.declare.bad_records import BadRecords, DeadLetters, parse_bad_records
from klamm.pipelines.declare.sinks import Sink, ToBatches, ToFiles
from klamm.pipelines.declare.topic_source import TopicSource
from klamm.pipelines.errors import DeclarationError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["Flow", "OutputMode", "make_flow", "takes_environment"]

OutputMode = Literal["append", "update", "complete"]

_BY_NAME: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_SINKS: Final = "to_topic, to_files, to_format or to_batches"


@dataclass(frozen=True, slots=True)
class Flow:
    """A flow as declared."""

    name: str
    function: Callable[..., DataFrame]
    sources: Mapping[str, TopicSource]
    """By parameter of the function."""
    sink: Sink
    checks: Mapping[str, str | Callable[[DataFrame], Column]]
    """By parameter; a record is bad unless its check is true."""
    bad_records: BadRecords
    output_mode: OutputMode
    every: str | None
    """The interval between micro-batches; None: as soon as there are records."""
    replays: Flow | None = None
    """The declared flow whose dead letters this one reads; None for a declared flow."""
    letters_of: str | None = None
    """The header `klamm.flow` of the dead letters that this flow reads: flows may share a topic. None for a declared
    flow."""

    @property
    def has_several_sources(self) -> bool:
        """Whether each source needs a name and a group of its own."""
        return len(self.sources) > 1

    @property
    def writes_dead_letters(self) -> bool:
        """Whether a second query writes the bad records to a topic."""
        return isinstance(self.bad_records, DeadLetters)


def make_flow(
    function: Callable[..., DataFrame],
    *,
    name: str,
    source: object,
    sources: object,
    sink: object,
    check: object,
    bad_records: object,
    output_mode: object,
    every: object,
) -> Flow:
    """Checks the arguments of `Pipeline.flow` and returns the flow. Raises `DeclarationError`."""
    place = f"flow {name}"
    by_parameter = _sources(place, function, source, sources)
    if not isinstance(sink, Sink):
        raise DeclarationError(f"{place}: sink is made by {_SINKS}, not {sink!r}")
    if output_mode not in get_args(OutputMode):
        raise DeclarationError(f"{place}: output_mode={output_mode!r}: it is 'append', 'update' or 'complete'")
    if output_mode != "append" and isinstance(sink, ToFiles):
        raise DeclarationError(f"{place}: to_files() takes only the output mode 'append': files are never changed")
    if every is not None and (not isinstance(every, str) or not every.strip()):
        raise DeclarationError(f"{place}: every={every!r}: it is an interval such as '5 seconds'")
    return Flow(
        name,
        function,
        by_parameter,
        sink,
        _checks(place, by_parameter, check),
        parse_bad_records(bad_records),
        output_mode,  # type: ignore[arg-type]
        every,
    )


def _sources(place: str, function: Callable[..., Any], source: object, sources: object) -> dict[str, TopicSource]:
    if (source is None) == (sources is None):
        raise DeclarationError(f"{place} takes source=topic(…), or sources={{'parameter': topic(…), …}} for several")
    parameters = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is inspect.Parameter.empty
    ]
    names = [parameter.name for parameter in parameters]
    if nameless := [each.name for each in parameters if each.kind not in _BY_NAME]:
        raise DeclarationError(
            f"{place}: its function gets each DataFrame by the name of the parameter, which {', '.join(nameless)} does "
            "not take"
        )
    if sources is None:
        if len(names) != 1:
            raise DeclarationError(
                f"{place}: with one source its function takes one DataFrame, and not {', '.join(names) or 'nothing'}"
            )
        sources = {names[0]: source}
    if not isinstance(sources, Mapping) or not sources:
        raise DeclarationError(f"{place}: sources is a dict from the function's parameters to topic(…)")
    if set(sources) != set(names):
        raise DeclarationError(
            f"{place}: sources has {', '.join(sorted(map(str, sources)))}, and its function takes "
            f"{', '.join(names) or 'nothing'}. Both need the same names"
        )
    for parameter, each in sources.items():
        if not isinstance(each, TopicSource):
            raise DeclarationError(f"{place}: the source {parameter} is made by topic(…), not {each!r}")
    return {name: sources[name] for name in names}


def _checks(
    place: str, sources: Mapping[str, TopicSource], check: object
) -> dict[str, str | Callable[[DataFrame], Column]]:
    if check is None:
        return {}
    if not isinstance(check, Mapping):
        if len(sources) > 1:
            raise DeclarationError(f"{place}: with several sources, check is a dict from parameters to checks")
        check = {next(iter(sources)): check}
    checks: dict[str, str | Callable[[DataFrame], Column]] = {}
    for parameter, each in check.items():
        if parameter not in sources:
            raise DeclarationError(f"{place}: check names {parameter!r}, and the sources are {', '.join(sources)}")
        if not callable(each) and not (isinstance(each, str) and each.strip()):
            raise DeclarationError(
                f"{place}: check is a SQL expression, or a function that takes the DataFrame and returns a Column"
            )
        checks[parameter] = each
    return checks


def takes_environment(sink: ToBatches) -> bool:
    """Returns whether the function of a sink has a parameter `environment`."""
    return "environment" in inspect.signature(sink.function).parameters
