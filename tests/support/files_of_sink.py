"""The rows that Spark's file sink has committed: those of the files in its metadata log."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

__all__ = ["committed_files", "committed_rows"]


def committed_files(folder: Path) -> list[str]:
    """Returns the files that the sink's log lists; none before its first micro-batch."""
    log = folder / "_spark_metadata"
    if not log.is_dir():
        return []
    entries = {path.name: path for path in log.iterdir() if path.name.split(".")[0].isdigit()}
    compacted = [int(name.removesuffix(".compact")) for name in entries if name.endswith(".compact")]
    since = max(compacted, default=-1)
    files = []
    for name, path in entries.items():
        if name == f"{since}.compact" or (name.isdigit() and int(name) > since):
            lines = path.read_text(encoding="utf-8").splitlines()[1:]
            files += [json.loads(line)["path"].removeprefix("file:") for line in lines]
    return files


def committed_rows(folder: Path, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """Returns the committed rows of Parquet files, in no order."""
    rows: list[tuple[Any, ...]] = []
    for file in committed_files(folder):
        table = pq.ParquetFile(file).read(columns=list(columns))
        rows += zip(*(table[name].to_pylist() for name in columns), strict=True)
    return rows
