"""The mark of a broker's run in its data directory. See `core/replication/run_mark.py`."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Final

from klamm.core.replication.run_mark import PageCache, RunMark, kept_runs
from klamm.storage.atomic_file import write_atomically
from klamm.storage.directory.page_cache import identify_page_cache

__all__ = ["RUN_MARK_FILE", "RunRecord"]

_logger = logging.getLogger(__name__)

RUN_MARK_FILE: Final = ".klamm-run"
_VERSION: Final = 1


class RunRecord:
    """The mark in one data directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / RUN_MARK_FILE
        self.is_stuck = False
        """Whether the mark could not be removed after a failure, so that a later start may find it."""
        self._has_failed = False

    def kept_runs(self, closed: str | None) -> frozenset[str]:
        """Returns the runs whose acknowledged records are all in the directory. Called after all logs are loaded.

        `closed`: the run that closed the directory in order, None if the latest one did not.
        """
        return kept_runs(self._read(), identify_page_cache(self._directory), closed)

    def recorded_runs(self, incarnation: str | None) -> frozenset[str]:
        """Returns the runs that the directory has recorded. `incarnation`: the latest of them, None for a new one."""
        if incarnation is None:
            return frozenset()
        mark = self._read()
        earlier = mark.recorded if mark is not None and mark.incarnation == incarnation else ""
        return frozenset({incarnation, earlier} - {""})

    def begin(self, incarnation: str, kept: str, recorded: str) -> None:
        """Replaces the mark by that of a new run, before the run registers. `kept` and `recorded`: see `RunMark`.

        Raises OSError.
        """
        if self._has_failed:
            return
        cache = identify_page_cache(self._directory)
        body = {
            "version": _VERSION,
            "incarnation": incarnation,
            "kept": kept,
            "recorded": recorded,
            "cache": None if cache is None else cache._asdict(),
        }
        write_atomically(self._path, json.dumps(body).encode())
        if self._has_failed:  # in the meantime, on another thread
            self.distrust()

    def distrust(self) -> None:
        """Removes the mark, because the directory may lack records of an earlier run. Any thread may call it.

        Raises OSError.
        """
        self._path.unlink(missing_ok=True)

    def fail(self) -> None:
        """Removes the mark for the rest of this run: a write or a sync has failed. Any thread may call it."""
        if self._has_failed:
            return
        self._has_failed = True
        try:
            self.distrust()
        except OSError as error:
            self.is_stuck = True
            _logger.error("%s can't be removed after a failure of the disk: %s", self._path, error)

    def _read(self) -> RunMark | None:
        try:
            body = json.loads(self._path.read_bytes())
            if body["version"] != _VERSION:
                return None
            cache = body["cache"]
            page_cache = None if cache is None else PageCache(**cache)
            return RunMark(body["incarnation"], body["kept"], page_cache, body.get("recorded", ""))
        except (OSError, ValueError, KeyError, TypeError):
            return None
