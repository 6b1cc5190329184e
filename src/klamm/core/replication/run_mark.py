"""Decides after which runs of a broker its data directory still holds every record that the run acknowledged.

Only such a broker stays an eligible leader replica when it starts again (KIP-966). There are two proofs:

- The run closed the directory in order. Everything is on the disk.
- The run was killed, and its page cache still exists. A record is acknowledged, or counted by the leader, after the
  system call that writes it has returned. From then on the kernel has the record, even if the process is
  killed. This holds while the machine runs and the file system stays mounted, unless a write or a sync has failed.

For the second proof a run leaves a mark in the directory, and removes it as soon as a write or a sync fails. The mark
names the run and its page cache. The run must also be the latest one that has registered in the metadata store:
otherwise the directory is a copy or a backup, and the broker has acknowledged records elsewhere since.

Source: klamm's own rule. Apache Kafka accepts only the first proof.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["PageCache", "RunMark", "is_same_cache", "kept_runs"]


class PageCache(NamedTuple):
    """The page cache of a data directory. A restart of the machine loses it, and so may a detached disk."""

    boot_id: str
    """The id of the kernel's present run: it changes with every restart of the machine."""
    device: int
    """The number of the file system's device."""
    folder: int
    """The number of the directory in its file system: a copy of the directory has another one."""
    root: int
    """The number of the mount at `/`, which tells mount namespaces apart: the number of a namespace itself may be given
    again. Each container has its own namespace, and a service with its own `/tmp`, too."""
    mount: int
    """The number of the mount that the directory is on, in this namespace."""
    disk: int | None
    """The number of the disk: a disk that is attached again has another one. None if it is not known."""


class RunMark(NamedTuple):
    """The mark of a run in its data directory."""

    incarnation: str
    kept: str
    """The latest registered run before this one, if the directory still held all records of that run; else "". It
    counts if this run ends before it has registered."""
    cache: PageCache | None
    """None if the page cache can't be identified."""
    recorded: str = ""
    """The latest registered run before this one, if the directory had recorded it, whatever it has lost since; else "".
    It counts if this run ends before it has registered."""


def is_same_cache(before: PageCache | None, now: PageCache | None) -> bool:
    """Returns whether pages that were written to `before` are still in `now`, or on its disk.

    A mount that ended in order has written its pages. But a mount may also end because its disk failed, so it must be
    the same one. Numbers of mounts in two namespaces can't be compared: then the disk must be the same one.
    """
    if before is None or now is None or before[:3] != now[:3]:
        return False
    if before.root == now.root:
        return before.mount == now.mount
    return before.disk is not None and before.disk == now.disk


def kept_runs(mark: RunMark | None, now: PageCache | None, closed: str | None) -> frozenset[str]:
    """Returns the runs whose acknowledged records are all in the data directory.

    `closed`: the run that closed the directory in order, None if the latest one did not.
    """
    runs = {closed or ""}
    if mark is not None and (closed is not None or is_same_cache(mark.cache, now)):
        runs |= {mark.incarnation, mark.kept}
    return frozenset(runs - {""})
