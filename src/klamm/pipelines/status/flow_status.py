"""The status file of a flow: what a running pipeline says of it, for people and programs on any machine."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final, TypeVar

from klamm.pipelines.status.query_reports import QueryFigures
from klamm.spark.folders import folder_at

__all__ = ["FlowStatus", "QueryStatus", "Runner", "bad_records_before", "is_alive", "read_status", "write_status"]

T = TypeVar("T")

_FILE: Final = "status.json"
_FRESH_S: Final = 30.0
_FINAL: Final = ("stopped", "failed")


@dataclass(frozen=True, slots=True)
class Runner:
    """The process that runs a flow."""

    run_id: str
    host: str
    pid: int
    process_start: str | None
    """Tells a process from a later one with the same id; None where the system does not tell it."""
    pid_namespace: str | None = None
    """Tells containers with the same host name apart, as those in the network of their machine; None where the system
    does not tell it, and in a file of an older version."""

    @classmethod
    def this_process(cls, run_id: str) -> Runner:
        """Returns the runner that is this process."""
        return cls(run_id, socket.gethostname(), os.getpid(), _process_start(os.getpid()), _pid_namespace())

    @property
    def is_visible(self) -> bool:
        """Whether this process can look up the runner's process by its id."""
        own = _pid_namespace()
        is_same = own is None or self.pid_namespace is None or own == self.pid_namespace
        return is_same and self.host == socket.gethostname()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStatus(QueryFigures):
    """A query of the flow: its state with its figures."""

    state: str
    restarts: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class FlowStatus:
    """A flow at one moment."""

    pipeline: str
    flow: str
    environment: str | None
    state: str
    """starting, running, waiting to restart, stopping, stopped or failed."""
    runner: Runner
    once: bool
    started_ms: int
    updated_ms: int
    queries: Mapping[str, QueryStatus] = field(default_factory=dict)
    """By role: `flow` and `dead-letters`."""
    error: str | None = None

    @property
    def is_final(self) -> bool:
        """Whether its run has ended in order."""
        return self.state in _FINAL

    @property
    def figures(self) -> QueryStatus:
        """The figures of the flow's own query."""
        return self.queries.get("flow", QueryStatus(state=self.state))


def write_status(folder: str, status: FlowStatus) -> None:
    """Replaces the status file in a flow's folder. Raises `OSError`."""
    values = asdict(status)
    # For people, the state comes first.
    values["queries"] = {role: {"state": each["state"], **each} for role, each in values["queries"].items()}
    folder_at(folder).replace(_FILE, json.dumps(values, indent=2).encode())


def read_status(folder: str) -> FlowStatus | None:
    """Returns the status of the flow with this folder; None if it has never run.

    A file of an older or newer klamm is read as well: unknown fields are left out, new ones have their defaults. Raises
    `OSError`, and `ValueError` for a damaged file.
    """
    content = folder_at(folder).read(_FILE)
    if content is None:
        return None
    try:
        values: dict[str, Any] = json.loads(content)
        return _known(
            FlowStatus,
            values
            | {
                "runner": _known(Runner, values["runner"]),
                "queries": {role: _known(QueryStatus, each) for role, each in values["queries"].items()},
            },
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{folder}/{_FILE} is damaged: {error}") from None


def bad_records_before(folder: str) -> dict[str, int]:
    """Returns the bad records that earlier runs of the flow have counted, by role; none for a status that can't be
    read."""
    try:
        status = read_status(folder)
    except (OSError, ValueError):
        return {}
    return {} if status is None else {role: query.bad_records for role, query in status.queries.items()}


def _known(of: type[T], values: Mapping[str, Any]) -> T:
    """Returns an instance of the dataclass, without fields that it does not have."""
    names = {each.name for each in fields(of)}  # type: ignore[arg-type]  # a dataclass
    return of(**{name: value for name, value in values.items() if name in names})


def is_alive(status: FlowStatus, now_ms: int) -> bool:
    """Returns whether the process that wrote the status still runs the flow.

    On this machine the process is looked up. Of a process on another machine or in another container, it is known only
    when it wrote last.
    """
    if status.is_final:
        return False
    runner = status.runner
    if runner.is_visible:
        return _is_running(runner)
    return now_ms - status.updated_ms < _FRESH_S * 1000


def _is_running(runner: Runner) -> bool:
    try:
        os.kill(runner.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    start = _process_start(runner.pid)
    return start is None or runner.process_start is None or start == runner.process_start


def _pid_namespace() -> str | None:
    """Returns the name of this process's namespace of process ids; None where there is no /proc."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return None


def _process_start(pid: int) -> str | None:
    """Returns when a process started, in the kernel's ticks; None where there is no /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    # A zombie has ended; only its parent has not noticed.
    return "ended" if fields[0] == "Z" else fields[19]
