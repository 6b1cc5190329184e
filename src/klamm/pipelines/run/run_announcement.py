"""The status of a pipeline's flows while Spark starts for them, when there is no run yet that could write it."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Final, Self

from klamm.errors import KlammError
from klamm.pipelines.declare.flow import Flow
from klamm.pipelines.errors import PipelineError
from klamm.pipelines.run.error_texts import one_line
from klamm.pipelines.run.flow_run import DEAD_LETTERS, FLOW, STOP_FILE
from klamm.pipelines.run.place import Place
from klamm.pipelines.status.flow_status import (
    FlowStatus,
    QueryStatus,
    Runner,
    bad_records_before,
    read_status,
    write_status,
)
from klamm.spark.folders import folder_at

__all__ = ["RunAnnouncement", "forget_stop_requests", "unwritable_folder"]

_INTERVAL_S: Final = 5.0


class RunAnnouncement:
    """A context manager in which Spark starts, and a `PipelineRun` is made with its `runner`.

    Meanwhile the flows have the status `starting`, which is refreshed for other machines. So a second run is refused,
    and a request to stop is kept for the run, which finds it. If the run is not made, the status says why.
    """

    def __init__(self, place: Place, flows: Iterable[Flow], *, once: bool) -> None:
        self.runner: Final = Runner.this_process(uuid.uuid4().hex)
        self._place = place
        self._flows = list(flows)
        self._once = once
        self._started_ms = _now_ms()
        self._statuses: dict[str, FlowStatus] = {}
        """By the folder of the flow."""
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._refresh, name="klamm-pipeline-announcement", daemon=True)

    def __enter__(self) -> Self:
        """Writes the status. Raises `PipelineError` if a flow's folder can't be written."""
        try:
            forget_stop_requests(self._place, self._flows)
            for flow in self._flows:
                self._announce(flow)
            self._thread.start()
        except BaseException as error:  # as SIGTERM raises it; there is no `__exit__` then
            self._is_over.set()
            self._withdraw_for(error)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()
        self._withdraw_for(error)

    def _announce(self, flow: Flow) -> None:
        folder, status = self._place.flow_folder(flow.name), self._starting(flow)
        self._statuses[folder] = status
        try:
            write_status(folder, status)
        except OSError as error:
            raise unwritable_folder(flow, error) from None

    def _withdraw_for(self, error: BaseException | None) -> None:
        """Writes the status of flows whose run is not made, because of `error`."""
        if isinstance(error, Exception):
            told = str(error) if isinstance(error, KlammError) else one_line(f"{type(error).__name__}: {error}")
            self._withdraw("failed", told)
        elif error is not None:  # such as KeyboardInterrupt
            self._withdraw("stopped", None)

    def _starting(self, flow: Flow) -> FlowStatus:
        """Returns the status of a flow, with the counts that its next status goes on from."""
        before = bad_records_before(self._place.flow_folder(flow.name))
        roles = (FLOW, DEAD_LETTERS) if flow.writes_dead_letters else (FLOW,)
        return FlowStatus(
            pipeline=self._place.pipeline,
            flow=flow.name,
            environment=self._place.environment,
            state="starting",
            runner=self.runner,
            once=self._once,
            started_ms=self._started_ms,
            updated_ms=self._started_ms,
            queries={role: QueryStatus(state="starting", bad_records=before.get(role, 0)) for role in roles},
        )

    def _refresh(self) -> None:
        while not self._is_over.wait(_INTERVAL_S):
            for folder, status in self._statuses.items():
                with suppress(OSError):  # tried again; another machine takes an old file for a dead process
                    if self._has(folder):
                        write_status(folder, replace(status, updated_ms=_now_ms()))

    def _withdraw(self, state: str, error: str | None) -> None:
        for folder, status in self._statuses.items():
            queries = {role: replace(query, state=state) for role, query in status.queries.items()}
            with suppress(OSError):  # the run ends with an error of its own
                if self._has(folder):
                    folder_at(folder).remove_file(STOP_FILE)
                    final = replace(status, state=state, queries=queries, error=error, updated_ms=_now_ms())
                    write_status(folder, final)

    def _has(self, folder: str) -> bool:
        """Returns whether no other run has taken the flow meanwhile. Raises `OSError`."""
        try:
            present = read_status(folder)
        except ValueError:
            return False
        return present is not None and present.runner == self.runner


def forget_stop_requests(place: Place, flows: Iterable[Flow]) -> None:
    """Removes requests to stop that were made before this run. Raises `PipelineError` if one can't be removed."""
    for flow in flows:
        folder = place.flow_folder(flow.name)
        try:
            folder_at(folder).remove_file(STOP_FILE)
        except OSError as error:
            raise PipelineError(f"an old request to stop, {folder}/{STOP_FILE}, can't be removed: {error}") from None


def unwritable_folder(flow: Flow, error: OSError) -> PipelineError:
    """Returns the error for a flow's folder that can't be written."""
    return PipelineError(
        f"the folder of flow {flow.name} can't be written: {error}. It takes the checkpoint and the status: mend it, "
        "or choose another folder with --checkpoints"
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
