"""Bugs to plant into the storage, so that worlds of logs can show that they would find them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from klamm.core.log.transactions import Transactions
from klamm.protocol.types import Offset
from klamm.storage import durable_log, log_loading, recovery
from klamm.storage.flush import Flush
from klamm.storage.loaded_log import LoadRequest
from klamm.storage.log_files import SNAPSHOT_SUFFIX, file_name
from klamm.storage.producer_recovery import rebuild_producer_state

__all__ = ["LOG_BUGS"]


@contextmanager
def _cut_damage_silently() -> Iterator[None]:
    """Recovery cuts a log at the first bad batch, wherever that is; Kafka's does."""
    recover = recovery.recover

    def recover_without_point(request: LoadRequest, *arguments: Any) -> Offset:
        return recover(request._replace(recovery_point=Offset(0)), *arguments)

    with (
        patch.object(log_loading, "recover", recover_without_point),
        patch.object(log_loading, "_check_end", lambda *arguments: None),
    ):
        yield


@contextmanager
def _forget_to_truncate_producers() -> Iterator[None]:
    """Snapshots of producers that are newer than the log is after a cut are kept, and believed."""

    def usable(directory: Path, snapshots: list[Offset], *rest: Any) -> list[Path]:
        return [directory / file_name(offset, SNAPSHOT_SUFFIX) for offset in snapshots]

    def rebuild(*arguments: Any, **options: Any) -> Offset:
        return rebuild_producer_state(*arguments, **{**options, "indexes_from": None})

    with (
        patch.object(log_loading, "usable_snapshots", usable),
        patch.object(log_loading, "rebuild_producer_state", rebuild),
    ):
        yield


@contextmanager
def _pass_an_open_transaction() -> Iterator[None]:
    """The last stable offset is the high watermark while only one transaction is open."""
    first_undecided_offset = Transactions.first_undecided_offset

    def first_of_several(transactions: Transactions) -> Offset | None:
        return first_undecided_offset(transactions) if len(transactions) > 1 else None

    with patch.object(Transactions, "first_undecided_offset", first_of_several):
        yield


@contextmanager
def _forget_to_sync_names() -> Iterator[None]:
    """A flush brings records to the disk, and not the names of the files that they are in."""
    init = Flush.__init__

    def without_folders(flush: Flush, *arguments: Any, **options: Any) -> None:
        init(flush, *arguments, **{**options, "folders": []})

    with patch.object(Flush, "__init__", without_folders):
        yield


@contextmanager
def _believe_a_second_sync() -> Iterator[None]:
    """A sync that fails leaves no mark: after a restart what can be read counts as being on the disk."""
    with patch.object(durable_log, "note_failed_sync", lambda directory: None):
        yield


LOG_BUGS: Final[Mapping[str, Callable[[], AbstractContextManager[None]]]] = {
    "cut damage silently": _cut_damage_silently,
    "forget to truncate producers": _forget_to_truncate_producers,
    "pass an open transaction": _pass_an_open_transaction,
    "forget to sync names": _forget_to_sync_names,
    "believe a second sync": _believe_a_second_sync,
}
