"""`Pipeline`: the flows of one Python file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from klamm.pipelines.declare.bad_records import DeadLetters
from klamm.pipelines.declare.flow import Flow, make_flow
from klamm.pipelines.declare.option_texts import OptionValue, option_texts
from klamm.pipelines.declare.sinks import Sink, ToFiles
from klamm.pipelines.declare.topic_source import TopicSource
from klamm.pipelines.errors import DeclarationError
from klamm.spark.folders import absolute_location

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["Pipeline"]

_DEFAULT_CHECKPOINTS: Final = "klamm-pipelines"
# Without a dot: dots separate the environment, the pipeline and the flow in the id of a group.
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_DEFAULT_RESTARTS: Final = 5

Function = TypeVar("Function", bound="Callable[..., DataFrame]")


class Pipeline:
    """A pipeline: its name, and its flows in the order of their declaration."""

    def __init__(
        self,
        name: str,
        *,
        checkpoints: str = _DEFAULT_CHECKPOINTS,
        max_restarts: int = _DEFAULT_RESTARTS,
        conf: Mapping[str, OptionValue] | None = None,
    ) -> None:
        """Declares a pipeline.

        `checkpoints` is the folder of its checkpoints and status files, a path or a URI. After `max_restarts` restarts
        in a row without a finished micro-batch, a flow stops. `conf` holds Spark's own keys for the session.
        Raises `DeclarationError`.
        """
        check_name("a pipeline", name)
        if isinstance(max_restarts, bool) or not isinstance(max_restarts, int) or max_restarts < 0:
            raise DeclarationError(f"pipeline {name}: max_restarts={max_restarts!r}: it is a number from 0 on")
        if not isinstance(checkpoints, str) or not checkpoints.strip():
            raise DeclarationError(f"pipeline {name}: checkpoints={checkpoints!r}: it is a folder, a path or a URI")
        self.name: Final = name
        self.checkpoints: Final = checkpoints
        self.max_restarts: Final = max_restarts
        option_texts(f"pipeline {name}: conf", conf, {})
        self.conf: Final[Mapping[str, OptionValue]] = dict(conf or {})
        self.flows: Final[dict[str, Flow]] = {}

    def flow(
        self,
        *,
        source: TopicSource | None = None,
        sources: Mapping[str, TopicSource] | None = None,
        sink: Sink | None = None,
        name: str | None = None,
        check: str | Callable[[DataFrame], Column] | Mapping[str, str | Callable[[DataFrame], Column]] | None = None,
        bad_records: str | DeadLetters = "dead-letters",
        output_mode: str = "append",
        every: str | None = None,
    ) -> Callable[[Function], Function]:
        """Returns a decorator that adds a function as a flow, and returns the function unchanged.

        The function takes a DataFrame for each source and returns the DataFrame to write. `name` is by default the
        function's name. A record is bad if it does not decode, or if its `check` is not true: `bad_records` says what
        happens to it. `every` is the interval between micro-batches, such as "5 seconds". Raises `DeclarationError`.
        """

        def add(function: Function) -> Function:
            own = function.__name__ if name is None else name
            check_name("a flow", own)
            if own in self.flows:
                raise DeclarationError(
                    f"pipeline {self.name} has two flows named {own}; give one of them another name=…"
                )
            self._refuse_same_folder(own, sink)
            self.flows[own] = make_flow(
                function,
                name=own,
                source=source,
                sources=sources,
                sink=sink,
                check=check,
                bad_records=bad_records,
                output_mode=output_mode,
                every=every,
            )
            return function

        return add

    def _refuse_same_folder(self, name: str, sink: Sink | None) -> None:
        """Raises `DeclarationError` if another flow has the folder: Spark's file sink would take the micro-batches of
        one for those of the other."""
        if not isinstance(sink, ToFiles):
            return
        for other in self.flows.values():
            if isinstance(other.sink, ToFiles) and _folder(other.sink.path) == _folder(sink.path):
                raise DeclarationError(
                    f"flow {name} writes to {sink.path}, as flow {other.name} does: each needs a folder of its own"
                )

    def __repr__(self) -> str:
        return f"Pipeline({self.name!r}, flows: {', '.join(self.flows) or 'none'})"


def _folder(path: str) -> str:
    """Returns the folder in one spelling: an absolute path, or a URI as Hadoop takes it."""
    place, mark, rest = absolute_location(path).partition("://")
    return f"{place}{mark}{re.sub('/+', '/', rest)}".rstrip("/")


def check_name(what: str, name: object) -> None:
    """Raises `DeclarationError` unless `name` can be a part of a group's id."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise DeclarationError(f"{name!r} can't be the name of {what}: use letters, digits, _ and -")
