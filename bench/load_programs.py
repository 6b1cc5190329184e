"""The load: small C programs that use the librdkafka in the confluent-kafka wheel, compiled on first use."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["LoadPrograms", "SetUpError"]

_SOURCES = Path(__file__).parent / "load"
_PROGRAMS = (
    "produce",
    "fill",
    "acknowledge",
    "commit",
    "consume",
    "end_to_end",
    "first_record",
    "rebalance",
    "churn",
    "heartbeats",
    "mock_cluster",
)

_SHARED = {"rebalance": ("fleet",), "churn": ("fleet",)}


class SetUpError(Exception):
    """The bench can't run on this machine; the text names what is missing."""


def _librdkafka() -> Path:
    for file in importlib.metadata.files("confluent-kafka") or ():
        if file.name.startswith("librdkafka-") and ".so" in file.name:
            return Path(str(file.locate())).resolve()
    raise SetUpError("confluent-kafka is installed without its own librdkafka: install it from its wheel")


class LoadPrograms:
    """The compiled programs in `folder`. Raises `SetUpError` if there is no C compiler or no librdkafka."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        library = _librdkafka()
        compiler = shutil.which("cc") or shutil.which("gcc")
        folder.mkdir(parents=True, exist_ok=True)
        newest_source = max(path.stat().st_mtime for path in (*_SOURCES.iterdir(), library))
        for program in _PROGRAMS:
            target = folder / program
            if target.exists() and target.stat().st_mtime >= newest_source:
                continue
            if compiler is None:
                raise SetUpError("no C compiler on PATH: install gcc to run the bench")
            sources = [str(_SOURCES / f"{each}.c") for each in (program, "common", *_SHARED.get(program, ()))]
            flags = ["-O2", "-std=gnu11", "-Wall", "-Wextra", "-pthread", f"-Wl,-rpath,{library.parent}"]
            built = subprocess.run(
                [compiler, *flags, *sources, str(library), "-o", str(target)],
                capture_output=True,
                text=True,
                check=False,
            )
            if built.returncode != 0:
                raise SetUpError(f"{program}.c did not compile:\n{built.stderr}")

    def run(
        self, program: str, *, bootstrap: str, topic: str, settings: Mapping[str, str] | None = None, **options: object
    ) -> dict[str, Any]:
        """Runs a program to its end and returns the JSON object it prints.

        `options` are the program's own (`size=100` is `--size 100`, underscores become dashes); `settings` are
        librdkafka's. Raises `subprocess.CalledProcessError` or `TimeoutExpired`.
        """
        command = [str(self.folder / program), "--bootstrap", bootstrap, "--topic", topic]
        for name, value in options.items():
            command += [f"--{name.replace('_', '-')}", str(value)]
        for name, value in (settings or {}).items():
            command += ["-X", f"{name}={value}"]
        completed = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True)
        answer: dict[str, Any] = json.loads(completed.stdout)
        return answer
