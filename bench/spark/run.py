"""Runs the Spark programs, and finds the jars of Spark's connector for them."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from tests.support.spark_connector import ConnectorUnavailable, connector_jars

from bench.peers import PeerUnavailable

__all__ = ["SparkProgram", "jars"]

_MESSAGES_SHOWN: Final = 100
"""Lines of standard error that are shown of a program that fails."""


@cache
def jars() -> str:
    """Returns the jars of Spark's connector as a class path. Raises `PeerUnavailable` with the reason if it fails."""
    try:
        return connector_jars()
    except ConnectorUnavailable as error:
        raise PeerUnavailable(str(error)) from error


class SparkProgram:
    """A process that runs a program of this package. It exchanges lines with the bench, the last with the figures."""

    def __init__(self, name: str, *arguments: object) -> None:
        # Deleted as soon as it is closed, so it needs no `with`.
        self._messages = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"bench.spark.{name}", *map(str, arguments), jars()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._messages,
            text=True,
        )

    def __enter__(self) -> SparkProgram:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """Kills the program."""
        self._process.kill()
        self._process.wait()
        self._messages.close()

    def wait_for(self, line: str) -> None:
        """Reads until the program has printed this line. Raises `PeerUnavailable` if it ends first."""
        while self._next() != line:
            pass

    @property
    def process_id(self) -> int:
        """The id of the process; Spark's other processes descend from it."""
        return self._process.pid

    def go_on(self, line: str = "") -> None:
        """Sends the line that the program waits for."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def figures(self) -> Mapping[str, Any]:
        """Waits for the figures and returns them. Raises `PeerUnavailable` if the program ends without figures."""
        while not (line := self._next()).startswith("{"):
            pass
        found: Mapping[str, Any] = json.loads(line)
        return found

    def _next(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            status = self._process.wait()
            self._messages.seek(0)
            messages = [line.rstrip() for line in self._messages if line.strip()]
            print("\n".join(messages[-_MESSAGES_SHOWN:]), file=sys.stderr)
            raise PeerUnavailable(f"the Spark program ended with status {status}: {(messages or ['no message'])[-1]}")
        return line.strip()
