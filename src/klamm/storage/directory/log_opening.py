"""Loads the logs of a data directory at start: one after the other after a clean shutdown, otherwise on several
threads."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from klamm.core.log.leader_epoch import LeaderEpochs
from klamm.storage.recovery.loaded_log import LoadedLog, LoadRequest
from klamm.storage.recovery.log_loading import load_log
from klamm.storage.recovery.recovery_progress import RecoveryProgress

__all__ = ["load_logs", "offline"]

_logger = logging.getLogger(__name__)


def load_logs(requests: Sequence[LoadRequest], directory: Path, *, threads: int) -> Iterable[LoadedLog]:
    """Loads the logs, in the order of the requests. A log whose folder can't be read is offline."""
    # After a clean shutdown there is almost nothing to read, and threads would only slow each other down.
    if all(request.had_clean_shutdown for request in requests):
        return map(_load, requests)
    progress = RecoveryProgress(directory, len(requests))

    def recover(request: LoadRequest) -> LoadedLog:
        loaded = _load(request._replace(read_bytes=progress.read))
        progress.loaded()
        return loaded

    with ThreadPoolExecutor(threads, thread_name_prefix="klamm-recovery") as pool:
        return list(pool.map(recover, requests))


def _load(request: LoadRequest) -> LoadedLog:
    try:
        return load_log(request)
    except OSError as error:
        return offline(request, f"its folder can't be read: {error}")


def offline(request: LoadRequest, reason: str) -> LoadedLog:
    """Returns a log that is offline, and logs the reason in one line."""
    reason = f"{request.topic_partition} is offline: {reason}"
    _logger.error("%s", reason)
    return LoadedLog.offline(request, reason, [], LeaderEpochs())
