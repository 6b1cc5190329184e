"""Loses a commit of Spark's, so that the next run repeats a micro-batch."""

from __future__ import annotations

from pathlib import Path

__all__ = ["lose_newest_commit"]


def lose_newest_commit(checkpoint: Path) -> None:
    """Removes the newest commit of a checkpoint, as if the driver had died between the sink's commit and Spark's."""
    newest = max(
        (each for each in (checkpoint / "commits").iterdir() if each.name.isdecimal()), key=lambda at: int(at.name)
    )
    newest.unlink()
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
