"""Where a query keeps its checkpoint: Spark doesn't tell its source, so the source asks the driver.

The driver answers on a Unix-domain socket in a folder that only its user can enter; Spark hands the socket's path to
the source's processes in their environment, as it does with the application's id. A query is named by the fingerprint
of its source's options. Queries with the same options have the same group, so that it makes no difference which of them
has finished a micro-batch: all their checkpoints are told.
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
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SOCKET_VARIABLE", "answer_processes", "ask_driver", "checkpoints_in", "fingerprint"]

SOCKET_VARIABLE: Final = "KLAMM_SPARK_CHECKPOINTS"
"""The environment variable that holds the socket's path."""

_logger = logging.getLogger("klamm.spark")

_PATIENCE_S: Final = 5.0
_FORMAT: Final = "klamm"


def fingerprint(options: Mapping[str, str]) -> str:
    """What the options of a source are called between its process and the driver; keys are case-insensitive."""
    text = json.dumps(sorted((key.lower(), value) for key, value in options.items()))
    return hashlib.sha256(text.encode()).hexdigest()


def answer_processes(checkpoints: Callable[[str], list[str]]) -> str | None:
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


def ask_driver(wanted: str) -> list[str]:
    """The checkpoints, paths or URIs, of the running queries with this fingerprint; none if nobody can say. Never
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
                found: list[str] = json.load(answer)
                return found
    except (OSError, ValueError) as error:
        _logger.debug("the driver does not say where the checkpoint is: %s", error)
        return []


def checkpoints_in(spark: SparkSession, wanted: str) -> list[str]:
    """The checkpoints of the session's running queries one of whose sources has this fingerprint. In the driver."""
    found = []
    for query in spark.streams.active:
        # Another version of Spark may have other names for these; then the query is one of which nothing is known.
        with contextlib.suppress(Exception):
            execution = query._jsq.streamingQuery()
            if any(fingerprint(options) == wanted for options in _sources_of(execution.analyzedPlan())):
                found.append(str(execution.resolvedCheckpointRoot()))
    return found


def _sources_of(plan: Any) -> Iterator[dict[str, str]]:
    leaves = plan.collectLeaves()
    for index in range(leaves.size()):
        leaf = leaves.apply(index)
        if leaf.getClass().getSimpleName() == "StreamingRelationV2" and leaf.sourceName() == _FORMAT:
            yield dict(leaf.extraOptions().asCaseSensitiveMap())
