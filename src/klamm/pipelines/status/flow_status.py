"""The status file of a flow: what a running pipeline says of it, for people and programs on any machine."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from klamm.spark.folders import folder_at

__all__ = ["FlowStatus", "QueryStatus", "Runner", "is_alive", "read_status", "write_status"]

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

    @classmethod
    def this_process(cls, run_id: str) -> Runner:
        """Returns the runner that is this process."""
        return cls(run_id, socket.gethostname(), os.getpid(), _process_start(os.getpid()))


@dataclass(frozen=True, slots=True)
class QueryStatus:
    """A query of the flow."""

    state: str
    batch_id: int | None = None
    records: int = 0
    bad_records: int = 0
    late_rows: int = 0
    records_per_second: float | None = None
    lag_records: int | None = None
    lag_seconds: float | None = None
    remaining_seconds: float | None = None
    watermark: str | None = None
    last_batch_ms: int | None = None
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
        return self.queries.get("flow", QueryStatus(self.state))


def write_status(folder: str, status: FlowStatus) -> None:
    """Replaces the status file in a flow's folder. Raises `OSError`."""
    folder_at(folder).replace(_FILE, json.dumps(asdict(status), indent=2).encode())


def read_status(folder: str) -> FlowStatus | None:
    """Returns the status of the flow with this folder; None if it has never run. Raises `OSError`, `ValueError`."""
    content = folder_at(folder).read(_FILE)
    if content is None:
        return None
    try:
        fields: dict[str, Any] = json.loads(content)
        fields["runner"] = Runner(**fields["runner"])
        fields["queries"] = {role: QueryStatus(**each) for role, each in fields["queries"].items()}
        return FlowStatus(**fields)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{folder}/{_FILE} is of another version of klamm, or damaged: {error}") from None


def is_alive(status: FlowStatus, now_ms: int) -> bool:
    """Returns whether the process that wrote the status still runs the flow.

    On this machine the process is looked up. Of another machine's process, it is known only when it wrote last.
    """
    if status.is_final:
        return False
    runner = status.runner
    if runner.host == socket.gethostname():
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


def _process_start(pid: int) -> str | None:
    """Returns when a process started, in the kernel's ticks; None where there is no /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    # A zombie has ended; only its parent has not noticed.
    return "ended" if fields[0] == "Z" else fields[19]
