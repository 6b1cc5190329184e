"""`klamm log dump`: prints the content of a data directory's files, even while a broker runs on it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from klamm.cli.log.dump_view import JsonView, TextView, View
from klamm.cli.log.log_records import DECODERS, Meaning, decode_control, decoder_of_topic
from klamm.errors import KlammError
from klamm.metadata.offline import read_commit
from klamm.protocol.errors import KafkaError
from klamm.protocol.record_batch import MAGIC, BatchHeader
from klamm.protocol.records import Record, decode_batch
from klamm.storage.checkpoints import MalformedCheckpoint, read_leader_epochs, read_offsets
from klamm.storage.inspection.data_files import FileKind, data_files, is_data_directory, kind_of, partition_folders
from klamm.storage.inspection.index_entries import (
    read_aborted_transactions,
    read_offset_entries,
    read_time_entries,
    trailing_bytes,
)
from klamm.storage.inspection.segment_walk import BadRange, walk
from klamm.storage.log.producer_snapshot import CorruptSnapshot, read_snapshot
from klamm.storage.log_files import parse_directory_name, parse_offset

__all__ = ["dump"]


class NothingToDump(KlammError):
    """The path is not a file or folder of a data directory."""


def dump(arguments: argparse.Namespace) -> int:
    """Prints each file. Returns 1 if a part of a file could not be read.

    Raises `NothingToDump`, OSError.
    """
    view: View = JsonView() if arguments.json else TextView()
    dumper = _Dumper(arguments, view)
    for path in arguments.paths:
        for each in _files(path):
            dumper.dump(each)
    return 1 if dumper.has_complaints else 0


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        if kind_of(path) is FileKind.OTHER:
            raise NothingToDump(f"{path} is no file of a data directory, by its name")
        yield path
        return
    found = False
    for each in data_files(path):
        found = True
        yield each
    if is_data_directory(path):
        for folder in partition_folders(path):
            yield from data_files(folder)
    elif not found:
        raise NothingToDump(f"{path} is neither a data directory nor the folder of a partition")


class _Dumper:
    """Prints files. `has_complaints` is true once a part of a file could not be read."""

    def __init__(self, arguments: argparse.Namespace, view: View) -> None:
        self.has_complaints = False
        self._view = view
        self._start: int = arguments.start
        self._end: int | None = arguments.end
        self._opens_records: bool = arguments.records
        self._decode: str = arguments.decode

    def dump(self, path: Path) -> None:
        """Prints one file."""
        kind = kind_of(path)
        self._view.file(path, kind, path.stat().st_size)
        if kind in (FileKind.SEGMENT, FileKind.METADATA_SNAPSHOT):
            self._dump_batches(path)
            return
        try:
            for row in self._rows(path, kind):
                if self._is_wanted(row):
                    self._view.row(row)
        except (MalformedCheckpoint, CorruptSnapshot, KlammError, UnicodeDecodeError) as error:
            self._complain(str(error))

    def _complain(self, text: str) -> None:
        self.has_complaints = True
        self._view.complaint(text)

    def _is_wanted(self, row: dict[str, Any]) -> bool:
        offset = row.get("offset")
        return not isinstance(offset, int) or (self._start <= offset and (self._end is None or offset <= self._end))

    def _rows(self, path: Path, kind: FileKind) -> Iterator[dict[str, Any]]:
        base_offset = parse_offset(path.name) or 0
        if kind is FileKind.OFFSET_INDEX:
            yield from (entry._asdict() for entry in read_offset_entries(path, base_offset))
        elif kind is FileKind.TIME_INDEX:
            yield from (entry._asdict() for entry in read_time_entries(path, base_offset))
        elif kind is FileKind.TRANSACTION_INDEX:
            yield from (entry._asdict() for entry in read_aborted_transactions(path))
        elif kind is FileKind.PRODUCER_SNAPSHOT:
            yield from (entry._asdict() for entry in read_snapshot(path))
        elif kind is FileKind.LEADER_EPOCHS:
            yield from (entry._asdict() for entry in read_leader_epochs(path))
        elif kind is FileKind.OFFSETS:
            for (topic, partition), offset in sorted(read_offsets(path).items()):
                # Not named "offset": --from and --to filter rows by the field "offset".
                yield {"topic": topic, "partition": partition, "checkpoint": offset}
        elif kind is FileKind.TEXT:
            yield from ({"line": line} for line in path.read_text(encoding="utf-8").splitlines())
        elif kind is FileKind.METADATA_STORE:
            for key, entry in sorted(read_commit(path).entries.items()):
                if entry is not None:
                    yield {
                        "key": key,
                        "value": entry.value.decode(),
                        "create_revision": entry.create_revision,
                        "mod_revision": entry.mod_revision,
                    }
        if kind in _INDEXES and (rest := trailing_bytes(path)):
            self._complain(f"{rest} bytes at the end are too few for an entry")

    # -- batches -------------------------------------------------------------------------------------------------------

    def _dump_batches(self, path: Path) -> None:
        decoder = self._decoder(path)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            for found in walk(descriptor, os.fstat(descriptor).st_size):
                if isinstance(found, BadRange):
                    self._complain(
                        f"no batch from position {found.position} to {found.end} "
                        f"({found.end - found.position} bytes): {found.reason}"
                    )
                    continue
                header = found.header
                if header.last_offset < self._start:
                    continue
                if self._end is not None and header.base_offset > self._end:
                    break
                self._view.batch(found.position, header)
                if self._opens_records:
                    self._dump_records(os.pread(descriptor, header.size_bytes, found.position), header, decoder)
        finally:
            os.close(descriptor)

    def _decoder(self, path: Path) -> str | None:
        if self._decode != "auto":
            return None if self._decode == "none" else self._decode
        if kind_of(path) is FileKind.METADATA_SNAPSHOT:
            return "metadata"
        partition = parse_directory_name(path.absolute().parent.name)
        return decoder_of_topic(partition.topic) if partition is not None else None

    def _dump_records(self, batch: bytes, header: BatchHeader, decoder: str | None) -> None:
        assert header.magic == MAGIC, "the walk takes no other"
        try:
            for record in decode_batch(batch):
                if self._start <= record.offset and (self._end is None or record.offset <= self._end):
                    self._view.record(record, self._meaning(record, header, decoder))
        except KafkaError as error:
            self._complain(f"the records of the batch at offset {header.base_offset} can't be opened: {error}")

    def _meaning(self, record: Record, header: BatchHeader, decoder: str | None) -> Meaning | None:
        if header.is_control:
            return decode_control(record)
        return DECODERS[decoder](record) if decoder is not None else None


_INDEXES: Final = frozenset({FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX})
