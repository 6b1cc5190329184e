"""The metadata log of an Apache Kafka cluster: `__cluster_metadata-0` with its snapshots, and `bootstrap.checkpoint`.

klamm keeps its metadata elsewhere. It reads this log to take over a data directory from Kafka, and writes it to hand
one over. A snapshot `<end offset>-<epoch>.checkpoint` replaces all of the log before its end offset. The records of
`bootstrap.checkpoint` are the first ones of a cluster whose log is empty.

Source: `raft/internals/KafkaRaftLog.java`, `snapshot/Snapshots.java`, `metadata/bootstrap/BootstrapDirectory.java`,
`metadata/util/BatchFileWriter.java` of Apache Kafka 4.3.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from klamm.errors import KlammError
from klamm.protocol.errors import KafkaError, MalformedMessage
from klamm.protocol.metadata_records import (
    ControlRecordType,
    MetadataRecord,
    decode_metadata_record,
    encode_control_batch,
    encode_metadata_batch,
)
from klamm.protocol.records import decode_batch
from klamm.protocol.schema.k_raft_version_record import KRaftVersionRecord
from klamm.protocol.schema.snapshot_footer_record import SnapshotFooterRecord
from klamm.protocol.schema.snapshot_header_record import SnapshotHeaderRecord
from klamm.protocol.schema.voters_record import VotersRecord
from klamm.protocol.types import LeaderEpoch, Millis, Offset
from klamm.storage.atomic_file import FOLDER_MODE, sync_directory, write_atomically
from klamm.storage.directory.metadata_files import (
    BOOTSTRAP_FILE,
    FIRST_SNAPSHOT,
    METADATA_FOLDER,
    parse_snapshot_name,
)
from klamm.storage.log_files import LOG_SUFFIX, parse_offset
from klamm.storage.segment.batch_scan import BadBatch, check_batches

__all__ = [
    "UnusableMetadataLog",
    "read_bootstrap",
    "read_metadata_log",
    "write_bootstrap",
    "write_first_snapshot",
]

_RECORDS_PER_BATCH: Final = 1000
_EPOCH: Final = LeaderEpoch(0)


class UnusableMetadataLog(KlammError):
    """The log or a snapshot is damaged, incomplete, or of an unknown version. The text names the file."""


def read_metadata_log(folder: Path) -> Iterator[MetadataRecord]:
    """Yields all records in order: those of the newest snapshot, then those of the log from the snapshot's end on.

    Control records are left out. Raises `UnusableMetadataLog`, OSError.
    """
    snapshots = sorted((name, path) for path in folder.iterdir() if (name := parse_snapshot_name(path.name)))
    start = Offset(0)
    if snapshots:
        name, path = snapshots[-1]
        start = name.end_offset
        yield from _records(path, Offset(0))
    segments = sorted(
        path for path in folder.iterdir() if path.suffix == LOG_SUFFIX and parse_offset(path.name) is not None
    )
    first = parse_offset(segments[0].name) if segments else None
    if first is not None and first > start:
        raise UnusableMetadataLog(
            f"{segments[0]} begins at offset {first}, but there is no snapshot of what was before it"
        )
    for path in segments:
        yield from _records(path, start)


def read_bootstrap(directory: Path) -> list[MetadataRecord]:
    """Returns the first records of a cluster with an empty log, an empty list if the file does not exist.

    Raises `UnusableMetadataLog`, OSError.
    """
    path = directory / BOOTSTRAP_FILE
    return list(_records(path, Offset(0))) if path.exists() else []


def _records(path: Path, start: Offset) -> Iterator[MetadataRecord]:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for position, header in check_batches(descriptor, os.fstat(descriptor).st_size):
            if header.is_control or header.last_offset < start:
                continue
            for record in decode_batch(os.pread(descriptor, header.size_bytes, position)):
                if record.offset >= start and record.value is not None:
                    yield decode_metadata_record(record.value)
    except (BadBatch, KafkaError, MalformedMessage) as error:
        where = f" at position {error.position}" if isinstance(error, BadBatch) else ""
        raise UnusableMetadataLog(f"{path} can't be read{where}: {error}") from error
    finally:
        os.close(descriptor)


def write_bootstrap(directory: Path, records: Sequence[MetadataRecord], *, now_ms: Millis) -> None:
    """Writes `bootstrap.checkpoint`. Raises OSError."""
    batches = []
    offset = Offset(1)
    for at in range(0, len(records), _RECORDS_PER_BATCH):
        some = records[at : at + _RECORDS_PER_BATCH]
        batches.append(encode_metadata_batch(some, offset=offset, epoch=_EPOCH, now_ms=now_ms))
        offset = Offset(offset + len(some))
    write_atomically(directory / BOOTSTRAP_FILE, _snapshot(batches, offset, now_ms))
    sync_directory(directory)


def write_first_snapshot(directory: Path, voters: VotersRecord, *, now_ms: Millis) -> None:
    """Creates the folder of the metadata log, with the snapshot that names its voters. Raises OSError."""
    folder = directory / METADATA_FOLDER
    folder.mkdir(mode=FOLDER_MODE)
    controls: Iterable[tuple[ControlRecordType, KRaftVersionRecord | VotersRecord]] = (
        (ControlRecordType.KRAFT_VERSION, KRaftVersionRecord(k_raft_version=1)),
        (ControlRecordType.KRAFT_VOTERS, voters),
    )
    batches = [
        encode_control_batch(kind, message, offset=Offset(number), epoch=_EPOCH, now_ms=now_ms)
        for number, (kind, message) in enumerate(controls, 1)
    ]
    write_atomically(folder / FIRST_SNAPSHOT, _snapshot(batches, Offset(1 + len(batches)), now_ms))
    sync_directory(folder)
    sync_directory(directory)


def _snapshot(batches: list[bytes], end: Offset, now_ms: Millis) -> bytes:
    header = encode_control_batch(
        ControlRecordType.SNAPSHOT_HEADER,
        SnapshotHeaderRecord(last_contained_log_timestamp=0),
        offset=Offset(0),
        epoch=_EPOCH,
        now_ms=now_ms,
    )
    footer = encode_control_batch(
        ControlRecordType.SNAPSHOT_FOOTER, SnapshotFooterRecord(), offset=end, epoch=_EPOCH, now_ms=now_ms
    )
    return b"".join([header, *batches, footer])
