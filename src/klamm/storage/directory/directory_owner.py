"""The identity of a data directory: its lock, its `meta.properties`, the record of the broker's runs with it, and the
mark of a clean stop."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from klamm.storage.atomic_file import FOLDER_MODE, sync_directory
from klamm.storage.checkpoints import take_clean_shutdown_mark, write_clean_shutdown_mark
from klamm.storage.directory.file_lock import DataDirectoryInUse, FileLock
from klamm.storage.directory.meta_properties import MetaProperties
from klamm.storage.directory.run_record import RunRecord

__all__ = ["DirectoryOwner"]

_NO_BROKER_EPOCH: Final = -1


class DirectoryOwner:
    """The process, the broker and the cluster to which a data directory belongs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock: FileLock | None = None
        self._meta: MetaProperties | None = None
        self._broker_epoch = _NO_BROKER_EPOCH
        self.had_clean_shutdown = False
        """Whether the latest run with this folder has closed it in order. Known after `take_clean_shutdown_mark`."""
        self.run = RunRecord(path)

    @property
    def is_locked(self) -> bool:
        """Whether this process has the lock of the folder."""
        return self._lock is not None

    def lock(self) -> None:
        """Creates the folder if necessary, takes its lock and reads its `meta.properties`. A second call does nothing.

        Raises `DataDirectoryInUse`, `InconsistentDataDirectory`, OSError.
        """
        if self._lock is None:
            self._path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            try:
                self._lock = FileLock(self._path)
            except DataDirectoryInUse as error:
                raise DataDirectoryInUse(
                    f"the data directory {self._path} is in use by another broker: stop that one first, or give this "
                    f"one a folder of its own with --data-dir"
                ) from error
            try:
                self._meta = MetaProperties.read(self._path)
            except BaseException:
                self.unlock()
                raise

    def unlock(self) -> None:
        """Releases the lock, if this process has it."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    @property
    def cluster_id(self) -> str | None:
        """The cluster that the folder belongs to, None for a new one."""
        return self._meta.cluster_id if self._meta is not None else None

    @property
    def incarnation(self) -> str | None:
        """The latest run of the broker with this folder that was recorded, None if there is none."""
        return self._meta.incarnation if self._meta is not None else None

    def check_node(self, node_id: int) -> None:
        """Raises `InconsistentDataDirectory` if the folder belongs to another broker. Called before anything in the
        folder is changed: no partition of it would be assigned to this broker."""
        if self._meta is not None:
            self._meta.check_node(self._path, node_id)

    def write_meta_properties(
        self, *, cluster_id: str, node_id: int, broker_epoch: int = _NO_BROKER_EPOCH, incarnation: str | None = None
    ) -> None:
        """Writes or checks the owner of the folder, and records the broker's run (`incarnation`) if it is given.

        `broker_epoch` is written into the clean shutdown mark.

        Raises `InconsistentDataDirectory` if the folder belongs to another cluster or node, OSError.
        """
        self._broker_epoch = broker_epoch
        self._meta = MetaProperties.ensure(
            self._meta, self._path, cluster_id=cluster_id, node_id=node_id, incarnation=incarnation
        )

    def take_clean_shutdown_mark(self) -> bool:
        """Removes the mark of a clean stop, and returns whether there was one. Raises OSError."""
        self.had_clean_shutdown = take_clean_shutdown_mark(self._path)
        # After a clean shutdown a power failure might otherwise bring the mark back, and torn files would be trusted.
        # After a kill the folder names may not be on the disk yet, and the logs are about to trust their snapshots.
        sync_directory(self._path)
        return self.had_clean_shutdown

    def write_clean_shutdown_mark(self) -> None:
        """Writes the mark of a clean stop to the disk. Raises OSError."""
        write_clean_shutdown_mark(self._path, self._broker_epoch)
        sync_directory(self._path)
