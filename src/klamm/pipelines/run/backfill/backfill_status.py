"""The status file of a flow's backfills while one runs: it lets no second one begin."""

from __future__ import annotations

import threading
import time
import uuid
from contextlib import suppress
from dataclasses import replace
from typing import Final

from klamm.pipelines.declare.flow import Flow
from klamm.pipelines.errors import PipelineError
from klamm.pipelines.run.backfill.backfill_record import backfills_folder
from klamm.pipelines.run.place import Place
from klamm.pipelines.status.flow_status import FlowStatus, QueryStatus, Runner, is_alive, read_status, write_status

__all__ = ["BackfillStatus", "refuse_second_backfill"]

_INTERVAL_S: Final = 5.0


class BackfillStatus:
    """A context manager that writes the status file, and refreshes it for other machines."""

    def __init__(self, place: Place, flow: Flow) -> None:
        self._place = place
        self._flow = flow
        self._folder = backfills_folder(place, flow)
        now = time.time_ns() // 1_000_000
        self._status = FlowStatus(
            pipeline=place.pipeline,
            flow=f"{flow.name}.backfill",
            environment=place.environment,
            state="running",
            runner=Runner.this_process(uuid.uuid4().hex),
            once=True,
            started_ms=now,
            updated_ms=now,
            queries={"flow": QueryStatus(state="running")},
        )
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._refresh, name="klamm-backfill-status", daemon=True)

    def __enter__(self) -> None:
        """Raises `PipelineError` if another process began a backfill after this one was planned."""
        refuse_second_backfill(self._place, self._flow)
        self._write("running")
        # Of two processes that begin at the same moment, the one that wrote first sees the other's file here, and ends.
        # Both go on only if the other looked before this one wrote, and writes after this look.
        refuse_second_backfill(self._place, self._flow, runner=self._status.runner)
        self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        with suppress(OSError):  # the backfill has ended as it has; its process is gone soon
            self._write("stopped" if kind is None else "failed")

    def _refresh(self) -> None:
        while not self._is_over.wait(_INTERVAL_S):
            with suppress(OSError):  # tried again; another machine takes an old file for a dead process
                self._write("running")

    def _write(self, state: str) -> None:
        now = time.time_ns() // 1_000_000
        write_status(self._folder, replace(self._status, state=state, updated_ms=now))


def refuse_second_backfill(place: Place, flow: Flow, *, runner: Runner | None = None) -> None:
    """Raises `PipelineError` if another process than `runner` runs a backfill of the flow in this environment."""
    try:
        status = read_status(backfills_folder(place, flow))
    except ValueError:
        return
    if status is not None and status.runner != runner and is_alive(status, time.time_ns() // 1_000_000):
        raise PipelineError(
            f"process {status.runner.pid} on {status.runner.host} runs a backfill of flow {flow.name} already"
        )
