"""`klamm pipeline stop`: requests the end of flows by a file in their folders, and waits for it."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import suppress
from datetime import timedelta
from typing import Final

from klamm.cli.pipeline.chosen_pipeline import choose_pipeline
from klamm.pipelines.errors import PipelineError
from klamm.pipelines.run.flow_run import STOP_FILE
from klamm.pipelines.status.flow_status import FlowStatus, is_alive, read_status
from klamm.spark.folders import folder_at

__all__ = ["run"]

_LOOK_INTERVAL_S: Final = 0.3


def run(arguments: argparse.Namespace) -> int:
    """Stops the flows that run. Returns 1 if one of them has failed, is gone, or does not end in time.

    Raises KlammError if no flow runs.
    """
    chosen = choose_pipeline(arguments)
    folders = {flow.name: chosen.place.flow_folder(flow.name) for flow in chosen.flows}
    before = {name: _status(name, folder) for name, folder in folders.items()}
    running = {name: status for name, status in before.items() if status is not None and is_alive(status, _now_ms())}
    if not running:
        raise PipelineError(f"no flow of the pipeline {chosen.pipeline.name} runs; `klamm pipeline status` shows more")
    for name in running:
        try:
            folder_at(folders[name]).replace(STOP_FILE, b"")
        except OSError as error:
            raise PipelineError(f"the request to stop flow {name} can't be written: {error}") from None
    deadline = time.monotonic() + arguments.timeout / timedelta(seconds=1)
    has_failed = False
    still_running = []
    for name, started in running.items():  # so their lines have the pipeline's order, whichever flow ends first
        status = started
        while True:
            # In HDFS there is no file for a moment while it is replaced.
            status = _status(name, folders[name]) or status
            if status.runner.run_id != started.runner.run_id or status.is_final:
                word = status.state if status.is_final else "stopped"
                print(f"flow {name}: {word}", flush=True)
                has_failed = has_failed or word == "failed"
                break
            if not is_alive(status, _now_ms()):
                with suppress(OSError):  # its next run removes the request too
                    folder_at(folders[name]).remove_file(STOP_FILE)
                print(f"flow {name}: process {status.runner.pid} on {status.runner.host} is gone", file=sys.stderr)
                has_failed = True
                break
            if time.monotonic() > deadline:
                still_running.append(name)
                break
            time.sleep(_LOOK_INTERVAL_S)
    if still_running:
        raise PipelineError(
            f"{', '.join(still_running)}: still running. The request stays: they end after their micro-batches"
        )
    return 1 if has_failed else 0


def _status(name: str, folder: str) -> FlowStatus | None:
    try:
        return read_status(folder)
    except (OSError, ValueError) as error:
        raise PipelineError(f"the status of flow {name} can't be read: {error}") from None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
