"""Starts the clients that handle records: those of `record_client.py`, and Confluent's Parallel Consumer in Java.

FastStream is installed into a folder of the bench, Parallel Consumer comes from Maven. A client that can't be had is
left out, with the reason on standard error.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from tests.support.short_lived_java import remembered_classpath

from bench.peers import PeerUnavailable
from bench.record_client import CLIENTS

__all__ = ["TITLES", "available_clients", "run_client"]

_ROOT: Final = Path(__file__).parents[1]
_FASTSTREAM: Final = _ROOT / "bench" / ".peers" / "faststream"
_FASTSTREAM_REQUIREMENT: Final = "faststream[kafka]==0.7.8"
_JAVA: Final = _ROOT / "bench" / "parallel_consumer"
_PATIENCE_S: Final = 600

TITLES: Final[Mapping[str, str]] = {
    **{name: title for name, (title, _) in CLIENTS.items()},
    "parallel_consumer": "Parallel Consumer (Java)",
}


@cache
def available_clients() -> tuple[str, ...]:
    """Returns the clients that run on this machine, after their installation."""
    install: Mapping[str, Callable[[], object]] = {"faststream": _install_faststream, "parallel_consumer": _classpath}
    found = []
    for name in TITLES:
        try:
            install.get(name, lambda: None)()
        except PeerUnavailable as missing:
            print(f"{TITLES[name]} is not measured: {missing}", file=sys.stderr)
        else:
            found.append(name)
    return tuple(found)


def _install_faststream() -> None:
    if (_FASTSTREAM / "faststream").exists():
        return
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(_FASTSTREAM)]
    installed = subprocess.run([*command, _FASTSTREAM_REQUIREMENT], capture_output=True, text=True, check=False)
    if installed.returncode != 0:
        raise PeerUnavailable(f"{_FASTSTREAM_REQUIREMENT} could not be installed: {installed.stderr.strip()[-200:]}")


@cache
def _classpath() -> str:
    if shutil.which("javac") is None or shutil.which("mvn") is None:
        raise PeerUnavailable("it needs a JDK 17 or later and Maven")
    return remembered_classpath(_JAVA / "pom.xml", _ask_maven)


def _ask_maven(output: Path) -> None:
    pom = str(_JAVA / "pom.xml")
    command = ["mvn", "-q", "-B", "-f", pom, "dependency:build-classpath", f"-Dmdep.outputFile={output}"]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    if completed.returncode != 0:
        raise PeerUnavailable(f"Maven could not find it: {completed.stdout[-200:]}")


def run_client(
    name: str, *, bootstrap: str, topic: str, group: str, count: int, handler_ms: int, has_latency: bool = False
) -> dict[str, float]:
    """Returns the figures of one client. Raises PeerUnavailable, and TimeoutExpired."""
    if name == "parallel_consumer":
        words = [bootstrap, topic, group, str(count), str(handler_ms), str(has_latency).lower()]
        command = ["java", "-cp", _classpath(), str(_JAVA / "RecordClient.java"), *words]
    else:
        options = {
            "bootstrap": bootstrap,
            "topic": topic,
            "group": group,
            "count": count,
            "handler_seconds": handler_ms / 1000,
            "has_latency": has_latency,
        }
        command = [sys.executable, "-m", "bench.record_client", name, json.dumps(options)]
    paths = [os.environ.get("PYTHONPATH", ""), *([str(_FASTSTREAM)] if name == "faststream" else [])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(
        command, cwd=_ROOT, env=environment, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise PeerUnavailable(f"{TITLES[name]} has ended with {done.returncode}: {done.stderr[-500:]}")
    figures: dict[str, float] = json.loads(lines[0])
    return figures
