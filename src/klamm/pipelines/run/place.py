"""Where a pipeline runs: its cluster, its environment, and the names that follow from them.

The same pipeline in several environments reads the same topics. Groups, checkpoints and everything that it writes have
the environment in their names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from klamm.pipelines.declare.bad_records import DeadLetters
from klamm.pipelines.declare.flow import Flow
from klamm.pipelines.declare.sinks import ToFiles, ToFormat
from klamm.pipelines.errors import DeclarationError, PipelineError
from klamm.spark.folders import absolute_location

__all__ = ["Place", "check_environment"]

_DEAD_LETTERS: Final = "dead-letters"
_NO_ENVIRONMENT: Final = "_"
_PLACEHOLDER: Final = "{environment}"
_ENVIRONMENT: Final = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Place:
    """The place of one run of a pipeline."""

    pipeline: str
    bootstrap_servers: str
    checkpoints: str
    """The folder of all pipelines' checkpoints: an absolute path or a URI."""
    environment: str | None = None
    client_options: Mapping[str, str] = field(default_factory=dict)
    """Options `kafka.…` of sources and sinks: TLS and SASL."""
    files_below: str | None = None
    """A folder for everything that sinks write to paths, in a test; None: the paths are those of the sinks."""

    @classmethod
    def at(
        cls,
        pipeline: str,
        *,
        bootstrap_servers: str,
        checkpoints: str,
        environment: str | None = None,
        client_options: Mapping[str, str] | None = None,
        files_below: str | None = None,
    ) -> Place:
        """Returns the place with an absolute folder. Raises `PipelineError` for an invalid environment."""
        check_environment(environment)
        folder = absolute_location(checkpoints.rstrip("/") or "/")
        return cls(pipeline, bootstrap_servers, folder, environment, dict(client_options or {}), files_below)

    @property
    def kafka_options(self) -> dict[str, str]:
        """The options `kafka.…` of every source and sink."""
        return {"kafka.bootstrap.servers": self.bootstrap_servers, **self.client_options}

    def query_name(self, flow: Flow) -> str:
        """Returns the name of a flow's query, which is the id of its group if it has one source."""
        return self._own(f"{self.pipeline}.{flow.name}")

    def dead_letters_query_name(self, flow: Flow) -> str:
        """Returns the name of the query that writes a flow's dead letters."""
        return f"{self.query_name(flow)}.{_DEAD_LETTERS}"

    def group(self, flow: Flow, parameter: str, *, is_dead_letters: bool = False) -> str:
        """Returns the group of a query for one of the flow's sources."""
        name = self.dead_letters_query_name(flow) if is_dead_letters else self.query_name(flow)
        return f"{name}.{parameter}" if flow.has_several_sources else name

    def topic(self, name: str) -> str:
        """Returns the name of a topic that the pipeline writes."""
        return self._own(name)

    def dead_letters_topic(self, flow: Flow) -> str:
        """Returns the topic of a flow whose bad records are dead letters."""
        assert isinstance(flow.bad_records, DeadLetters)
        return self.topic(flow.bad_records.topic or f"{self.pipeline}.{flow.name}.{_DEAD_LETTERS}")

    def path(self, path: str) -> str:
        """Returns a sink's path; the environment is a folder above its last part, or where the path names it.

        Raises `DeclarationError`."""
        own = self._path_in_environment(path)
        if self.files_below is None:
            return own
        return f"{self.files_below.rstrip('/')}/{own.replace('://', '/').lstrip('/')}"

    def _path_in_environment(self, path: str) -> str:
        if self.environment is None or _PLACEHOLDER in path:
            return self._named(path)
        scheme, separator, rest = path.partition("://")
        if separator and "/" not in rest.strip("/"):
            raise DeclarationError(
                f"the path {path} has no folder in which environments could have their own: write {_PLACEHOLDER} in it"
            )
        folder, slash, name = (rest if separator else path).rstrip("/").rpartition("/")
        own = f"{folder}{slash}{self.environment}/{name}"
        return f"{scheme}{separator}{own}" if separator else own

    def format_options(self, flow: Flow, sink: ToFormat) -> dict[str, str]:
        """Returns the options of a sink.

        Raises `DeclarationError` if all environments would have the same options, or if an option names the environment
        and the pipeline runs without one.
        """
        options = dict(sink.options)
        if (
            self.environment is not None
            and sink.path is None
            and not any(_PLACEHOLDER in value for value in options.values())
        ):
            raise DeclarationError(
                f"flow {flow.name}: in the environment {self.environment}, to_format({sink.format!r}) would write to "
                f"the same place as in all others: give it a path, or write {_PLACEHOLDER} in one of its options"
            )
        return {key: self._named(value) for key, value in options.items()}

    def files_path(self, sink: ToFiles | ToFormat) -> str | None:
        """Returns the path of a sink in this environment; None for a sink without a path."""
        return None if sink.path is None else self.path(sink.path)

    def flow_folder(self, flow: str) -> str:
        """Returns the folder of a flow's checkpoints, status and stop request."""
        return f"{self.checkpoints.rstrip('/')}/{self.environment or _NO_ENVIRONMENT}/{self.pipeline}/{flow}"

    def checkpoint(self, flow: str) -> str:
        """Returns the checkpoint of a flow's query."""
        return f"{self.flow_folder(flow)}/checkpoint"

    def dead_letters_checkpoint(self, flow: str) -> str:
        """Returns the checkpoint of the query that writes a flow's dead letters."""
        return f"{self.flow_folder(flow)}/{_DEAD_LETTERS}/checkpoint"

    def stop_file(self, flow: str) -> str:
        """Returns the file that stops a flow. Its dead letters end after it."""
        return f"{self.flow_folder(flow)}/stop"

    def _named(self, text: str) -> str:
        """Returns the text with the environment's name in place of the placeholder. Raises `DeclarationError`."""
        if self.environment is None:
            if _PLACEHOLDER in text:
                raise DeclarationError(
                    f"{text!r} names {_PLACEHOLDER}, and there is no environment: choose one with --env, or in the "
                    "context"
                )
            return text
        return text.replace(_PLACEHOLDER, self.environment)

    def _own(self, name: str) -> str:
        return name if self.environment is None else f"{self.environment}.{name}"


def check_environment(environment: str | None) -> None:
    """Raises `PipelineError` for a name that can't be an environment."""
    if environment is not None and (not _ENVIRONMENT.fullmatch(environment) or environment == _NO_ENVIRONMENT):
        raise PipelineError(f"{environment!r} can't be an environment: its name has letters, digits, _ and -")
