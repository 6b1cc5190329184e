"""The files that a `to_files` sink has written, for readers other than Spark.

A task writes its files where they stay. So after a crash the folder may also have files of a micro-batch that was
repeated, and a reader that takes all files reads records twice. The sink lists the files of finished micro-batches in
its folder `_spark_metadata`, which Spark's own readers use (Spark: `CompactibleFileStreamLog.scala`).
"""

from __future__ import annotations

import json
import re
from typing import Final

from klamm.pipelines.errors import PipelineError
from klamm.spark.folders import absolute_location, folder_at, local_path_of_uri, without_credentials

__all__ = ["written_files"]

_LOG: Final = "_spark_metadata"
_COMPACT: Final = ".compact"
_NAME: Final = re.compile(r"(\d+)(\.compact)?")
_VERSION: Final = "v1"
_LOCAL: Final = "file:"


def written_files(path: str) -> list[str]:
    """Returns the files of all finished micro-batches that flows have written with `to_files(path)`, oldest first.

    `path` is a folder or a URI that `pyarrow.fs` knows. Local files are returned as absolute paths, others as URIs.
    Raises `PipelineError` if no micro-batch was written there, or by an unknown version of Spark, and `OSError`.
    """
    location = absolute_location(path)
    folder = folder_at(location)
    files: list[str] = []
    batches = _names(folder.names(_LOG))
    place = without_credentials(location)
    if not batches:
        raise PipelineError(f"{place} has no files of a finished micro-batch that to_files() has written")
    for name in batches:
        version, *lines = (folder.read(f"{_LOG}/{name}") or b"").decode().splitlines() or [""]
        if version != _VERSION:
            raise PipelineError(f"{place}/{_LOG}/{name} begins with {version!r}; klamm knows only {_VERSION}")
        files.extend(_local(json.loads(line)["path"]) for line in lines)
    return files


def _names(names: list[str]) -> list[str]:
    """Returns the newest file that sums up those before it, and the files after it, in their order."""
    batches = sorted((int(match[1]), name) for name in names if (match := _NAME.fullmatch(name)))
    begin = max((batch for batch, name in batches if name.endswith(_COMPACT)), default=-1)
    return [name for batch, name in batches if batch > begin or name == f"{begin}{_COMPACT}"]


def _local(path: str) -> str:
    return local_path_of_uri(path) if path.startswith(_LOCAL) else path
