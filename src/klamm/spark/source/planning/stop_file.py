"""The request to stop: a file that a program or a person creates, and that the source looks for.

A query that finds the file plans nothing more, so its running micro-batch is its last one. The file works from another
process and from another machine, if both see the folder.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from klamm.spark.folders import absolute_location, folder_and_name, folder_at, without_credentials

__all__ = ["StopFile"]

_logger = logging.getLogger(__name__)

# An idle query asks dozens of times a second, and the file may be in an object store.
_INTERVAL_S: Final = 1.0


class StopFile:
    """The option `klamm.stop.file` of one query."""

    def __init__(self, location: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Takes a path or a URI that `pyarrow.fs` knows."""
        self._folder, self._name = folder_and_name(absolute_location(location))
        self._location = location
        self._clock = clock
        self._looked_at = float("-inf")
        self._exists = False
        self._has_warned = False

    def exists(self) -> bool:
        """Returns whether the file exists, as of at most a second ago. A folder that can't be read causes one
        warning, and counts as a folder without the file."""
        now = self._clock()
        if now - self._looked_at >= _INTERVAL_S:
            self._looked_at = now
            self._exists = self._look()
        return self._exists

    def _look(self) -> bool:
        try:
            return folder_at(self._folder).read(self._name) is not None
        except OSError as error:
            if not self._has_warned:
                _logger.warning(
                    "klamm.stop.file=%s can't be looked for: %s", without_credentials(self._location), error
                )
            self._has_warned = True
            return False
