"""Where a query keeps its checkpoint: Spark doesn't tell its source, so the source asks the driver.

The driver answers on a Unix-domain socket in a folder that only its user can enter; Spark hands the socket's path to
the source's processes in their environment, as it does with the application's id. A query is named by the fingerprint
of its source's options; of queries with the same options all checkpoints are told.
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

_logger = logging.getLogger("klamm.spark")

_PATIENCE_S: Final = 5.0
_FORMAT: Final = "klamm"


class SourceCheckpoint(NamedTuple):
    """Where a query has its checkpoint, a path or a URI, and which of its sources is meant."""

    location: str
    source: int
    """Spark numbers the streaming sources of a query from 0 on, and names their folders in the checkpoint so."""


def fingerprint(options: Mapping[str, str]) -> str:
    """What the options of a source are called between its process and the driver; keys are case-insensitive."""
    text = json.dumps(sorted((key.lower(), value) for key, value in options.items()))
    return hashlib.sha256(text.encode()).hexdigest()


def answer_processes(checkpoints: Callable[[str], Sequence[SourceCheckpoint]]) -> str | None:
    """Answers in threads of this process, for as long as it lives, with what `checkpoints` says of a fingerprint.

    Returns the socket's path; None where there are no such sockets.
    """
    if not hasattr(socketserver, "ThreadingUnixStreamServer"):  # Windows
        return None

    class Answer(socketserver.StreamRequestHandler):
        timeout = _PATIENCE_S

        def handle(self) -> None:
            try:
                self.wfile.write(json.dumps(checkpoints(self.rfile.readline(100).decode().strip())).encode())
            except Exception as error:
                # Whoever asked goes on without; nothing is printed into somebody's notebook.
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
    """The checkpoints of the running queries with this fingerprint; none if nobody can say. Never raises."""
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
    """The checkpoints of the session's running queries, for each source that has this fingerprint. In the driver."""
    found = []
    for query in spark.streams.active:
        # Another version of Spark may have other names for these; then the query is one of which nothing is known.
        with contextlib.suppress(Exception):
            execution = query._jsq.streamingQuery()
            location = str(execution.resolvedCheckpointRoot())
            for index, source in enumerate(_streaming_sources(execution.analyzedPlan())):
                if _is_ours(source) and fingerprint(dict(source.extraOptions().asCaseSensitiveMap())) == wanted:
                    found.append(SourceCheckpoint(location, index))
    return found


def _streaming_sources(plan: Any) -> Iterator[Any]:
    """In the order in which `MicroBatchExecution` numbers them; one that stands in the plan twice counts once."""
    leaves, seen = plan.collectLeaves(), list[Any]()
    for index in range(leaves.size()):
        leaf = leaves.apply(index)
        if leaf.isStreaming() and not any(leaf.equals(other) for other in seen):
            seen.append(leaf)
            yield leaf


def _is_ours(source: Any) -> bool:
    return source.getClass().getSimpleName() == "StreamingRelationV2" and str(source.sourceName()) == _FORMAT
