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
from klamm.pipelines.run.backfill.backfill_record import BackfillRecord, backfills_folder, read_records
from klamm.pipelines.run.place import Place
from klamm.pipelines.status.flow_status import FlowStatus, QueryStatus, Runner, is_alive, read_status, write_status

__all__ = ["BackfillStatus", "refuse_second_backfill", "running_claim"]

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


def running_claim(place: Place, flow: Flow) -> BackfillRecord | None:
    """Returns the record of a backfill that checks the files of the flow now, to replace them; None without one.

    The claim of a process that has ended is void: the same command claims and checks the files again. Raises `OSError`,
    and `PipelineError` for a record that can't be read.
    """
    claim = next((each for each in read_records(place, flow) if each.phase == "claimed"), None)
    return claim if claim is not None and _running(place, flow) is not None else None


def refuse_second_backfill(place: Place, flow: Flow, *, runner: Runner | None = None) -> None:
    """Raises `PipelineError` if another process than `runner` runs a backfill of the flow in this environment."""
    status = _running(place, flow)
    if status is not None and status.runner != runner:
        raise PipelineError(
            f"process {status.runner.pid} on {status.runner.host} runs a backfill of flow {flow.name} already"
        )


def _running(place: Place, flow: Flow) -> FlowStatus | None:
    """Returns the status of a backfill of the flow whose process lives; None without one."""
    try:
        status = read_status(backfills_folder(place, flow))
    except ValueError:
        return None
    return status if status is not None and is_alive(status, time.time_ns() // 1_000_000) else None
