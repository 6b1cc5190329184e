"""Runs the flow of the demo as a process: by `klamm pipeline run`, or by hand on Spark's connector."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.measure import cpu_seconds
from bench.spark.run import jars

__all__ = ["VARIANTS", "PipelineProcess", "Variant"]

_PIPELINE_FILE: Final = Path(__file__).parent / "spark" / "flights_pipeline.py"


@dataclass(frozen=True)
class Variant:
    """A way to run the flow."""

    title: str
    is_by_hand: bool = False
    semantics: str = "at-least-once"
    bad_records: str = "dead-letters"
    java_options: str = ""


VARIANTS: Final[Mapping[str, Variant]] = {
    "pipeline": Variant("klamm pipeline"),
    # Its JVM has Java's own archive of classes, not the one of `klamm pipeline prepare`.
    "unprepared": Variant("klamm pipeline, machine not prepared", java_options="-Xshare:auto"),
    "by_hand": Variant("by hand on Spark's connector", is_by_hand=True),
    "exactly_once": Variant("klamm pipeline, exactly once", semantics="exactly-once"),
    "drop": Variant("klamm pipeline without dead letters", bad_records="drop"),
}
"""The variant's name in the figures → the variant."""


class PipelineProcess:
    """A running process of a variant; leaving the context kills it with its JVM, and deletes its checkpoints."""

    def __init__(
        self, variant: str, bootstrap: str, read_topic: str, written_topic: str, max_records: int | None = None
    ) -> None:
        chosen = VARIANTS[variant]
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        folder = Path(self._folder.name)
        if chosen.is_by_hand:
            command = [sys.executable, "-m", "bench.spark.flights_by_hand", bootstrap, str(folder), jars()]
        else:
            klamm = Path(sys.executable).with_name("klamm")
            command = [str(klamm), "pipeline", "run", str(_PIPELINE_FILE), "-b", bootstrap, "--master", "local[2]"]
            command += ["--checkpoints", str(folder), "--json"]
        given = {
            "input": read_topic,
            "output": written_topic,
            "semantics": chosen.semantics,
            "bad_records": chosen.bad_records,
            "max_records": max_records,
            "java_options": chosen.java_options,
        }
        self.messages: Final = folder / "messages.txt"
        root = str(Path(__file__).parents[1])  # the pipeline's file imports the demo
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
        with self.messages.open("wb") as messages:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, "BENCH_PIPELINE": json.dumps(given), "PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
                stdout=messages,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __enter__(self) -> PipelineProcess:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._folder.cleanup()

    @property
    def cpu_seconds(self) -> float:
        """The processor time of the process, its JVM and its Python workers until now."""
        return cpu_seconds(self._process.pid)

    def failure(self) -> str | None:
        """Returns the last line of its messages if the process has ended; None while it runs."""
        if self._process.poll() is None:
            return None
        lines = self.messages.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return (lines or ["no message"])[-1]
