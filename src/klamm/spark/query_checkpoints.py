"""Finds a query's checkpoint: Spark does not pass it to the source, so the source asks the driver.

The driver serves a Unix-domain socket in a folder that only its user can enter. Spark passes the socket's path to the
source's processes in their environment, like the application's id. The fingerprint of its source's options identifies a
query; for queries with the same options the driver returns all checkpoints.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import socket
import socketserver
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SOCKET_VARIABLE", "SourceCheckpoint", "answer_processes", "ask_driver", "checkpoints_in", "fingerprint"]

SOCKET_VARIABLE: Final = "KLAMM_SPARK_CHECKPOINTS"
"""The environment variable that holds the socket's path."""

_logger = logging.getLogger(__name__)

_PATIENCE_S: Final = 5.0
_FORMAT: Final = "klamm"


class SourceCheckpoint(NamedTuple):
    """A query's checkpoint, as a path or a URI, and the number of one of the query's sources."""

    location: str
    source: int
    """Spark numbers the streaming sources of a query from 0 on, and uses the numbers as folder names in the
    checkpoint."""


def fingerprint(options: Mapping[str, str]) -> str:
    """Returns the hash that identifies a source by its options; keys are case-insensitive."""
    text = json.dumps(sorted((key.lower(), value) for key, value in options.items()))
    return hashlib.sha256(text.encode()).hexdigest()


def answer_processes(checkpoints: Callable[[str], Sequence[SourceCheckpoint]]) -> str | None:
    """Serves the result of `checkpoints` for a fingerprint, in threads of this process, until the process ends.

    Returns the socket's path; None if Unix-domain sockets are not available.
    """
    if not hasattr(socketserver, "ThreadingUnixStreamServer"):  # Windows
        return None

    class Answer(socketserver.StreamRequestHandler):
        timeout = _PATIENCE_S

        def handle(self) -> None:
            try:
                self.wfile.write(json.dumps(checkpoints(self.rfile.readline(100).decode().strip())).encode())
            except Exception as error:
                # The client continues without a checkpoint; a traceback would be printed into the user's notebook.
                _logger.debug("a process asked for checkpoints in vain: %s", error)

    # Deleted, with the socket in it, when this process ends.
    folder = tempfile.TemporaryDirectory(prefix="klamm-spark-")
    path = str(Path(folder.name, "checkpoints"))
    try:
        server = socketserver.ThreadingUnixStreamServer(path, Answer)
    except OSError as error:  # such as a path that is too long for a socket
        _logger.debug("the driver can't tell where checkpoints are: %s", error)
        return None
    server.daemon_threads = True
    server.folder = folder  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, name="klamm-spark-checkpoints", daemon=True).start()
    return path


def ask_driver(wanted: str) -> list[SourceCheckpoint]:
    """Returns the checkpoints of the running queries with this fingerprint; none if the driver is unreachable. Never
    raises."""
    path = os.environ.get(SOCKET_VARIABLE)
    if path is None:
        return []
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
            asking.settimeout(_PATIENCE_S)
            asking.connect(path)
            asking.sendall(f"{wanted}\n".encode())
            with asking.makefile("rb") as answer:
                return [SourceCheckpoint(*each) for each in json.load(answer)]
    except (OSError, TypeError, ValueError) as error:
        _logger.debug("the driver does not say where the checkpoint is: %s", error)
        return []


def checkpoints_in(spark: SparkSession, wanted: str) -> list[SourceCheckpoint]:
    """Returns the checkpoints of the application's running queries, for each source with this fingerprint. For the
    driver."""
    found = []
    # A session lists its own queries only. A query of another session would take the checkpoint of one with the same
    # options here for its own.
    running = spark._jsparkSession.sharedState().activeStreamingQueries()
    for query_id in list(running):
        # Another version of Spark may name these methods differently; then the query's checkpoint stays unknown. So
        # does that of a query that has just ended.
        with contextlib.suppress(Exception):
            execution = running[query_id]
            location = str(execution.resolvedCheckpointRoot())
            for index, source in enumerate(_streaming_sources(execution.analyzedPlan())):
                if _is_ours(source) and fingerprint(dict(source.extraOptions().asCaseSensitiveMap())) == wanted:
                    found.append(SourceCheckpoint(location, index))
    return found


def _streaming_sources(plan: Any) -> Iterator[Any]:
    """Yields the streaming sources in the order in which `MicroBatchExecution` numbers them, each only once."""
    leaves, seen = plan.collectLeaves(), list[Any]()
    for index in range(leaves.size()):
        leaf = leaves.apply(index)
        if leaf.isStreaming() and not any(leaf.equals(other) for other in seen):
            seen.append(leaf)
            yield leaf


def _is_ours(source: Any) -> bool:
    return source.getClass().getSimpleName() == "StreamingRelationV2" and str(source.sourceName()) == _FORMAT
