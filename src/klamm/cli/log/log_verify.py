"""`klamm log verify`: checks every log of a data directory, and repairs damage with --repair."""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from klamm.config.topic_config import TopicConfig
from klamm.errors import KlammError
from klamm.insight.words import count
from klamm.metadata.metadata_store import MetadataStoreError
from klamm.metadata.offline import read_image
from klamm.protocol.types import TopicId, TopicPartition
from klamm.storage.checkpoints import (
    CLEAN_SHUTDOWN_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    MalformedCheckpoint,
    read_offsets,
    write_topic_id,
)
from klamm.storage.directory.file_lock import DataDirectoryInUse, FileLock
from klamm.storage.directory.lost_metadata import MetadataLost, is_lost, refuse_lost_metadata
from klamm.storage.directory.meta_properties import InconsistentDataDirectory, MetaProperties
from klamm.storage.directory.metadata_files import METADATA_FOLDER
from klamm.storage.directory.worker_directories import existing_workers, metadata_file, worker_directory
from klamm.storage.inspection.data_files import FileKind, data_files, is_data_directory, kind_of, partition_folders
from klamm.storage.inspection.findings import Finding, PartitionReport, Severity
from klamm.storage.inspection.repair import (
    log_start_after,
    lower_recovery_points,
    mend_partition,
    raise_log_start_offsets,
    will_be_looked_through,
)
from klamm.storage.inspection.verification import KnownOfPartition, verify_missing, verify_partition
from klamm.storage.log_files import parse_directory_name

__all__ = ["verify"]


class NothingToVerify(KlammError):
    """The path is neither a data directory nor the folder of a partition."""


def verify(arguments: argparse.Namespace) -> int:
    """Prints the findings and the repairs. Returns 1 if there is damage that was not repaired.

    Raises `NothingToVerify`, DataDirectoryInUse with --repair, OSError.
    """
    given: Path = arguments.directory.absolute()
    if is_data_directory(given):
        workers = [worker_directory(given, number) for number in existing_workers(given)]
        # Each is checked, also after one with damage.
        return max([_verify(directory, partition_folders(directory), arguments) for directory in workers])
    if given.is_dir() and parse_directory_name(given.name) is not None:
        return _verify(given.parent, [given], arguments, is_whole=False)
    raise NothingToVerify(f"{given} is neither a data directory nor the folder of a partition")


def _verify(directory: Path, folders: list[Path], arguments: argparse.Namespace, *, is_whole: bool = True) -> int:
    """Checks a data directory, or some partitions of it."""
    lock, is_live = _lock(directory, is_needed=arguments.repair)
    try:
        verifier = _Verifier(directory, arguments, is_live=is_live)
        if lock is not None:
            verifier.read_metadata()
        if is_whole:
            verifier.check_directory()
        for folder in folders:
            verifier.check_partition(folder)
        if is_whole:
            verifier.check_missing(set(folders))
        verifier.finish()
    finally:
        if lock is not None:
            lock.release()
    return 1 if verifier.is_damaged else 0


def _lock(directory: Path, *, is_needed: bool) -> tuple[FileLock | None, bool]:
    """Returns the directory's lock, and whether a broker holds it. The lock is None if it can't be taken and is not
    needed."""
    try:
        return FileLock(directory), False
    except DataDirectoryInUse as error:
        if is_needed:
            raise DataDirectoryInUse(f"a broker runs on {directory}: stop it before anything is repaired") from error
        return None, True
    except OSError:
        # A read-only disk, or another user's folder: reading is still allowed.
        if is_needed:
            raise
        return None, False


class _Verifier:
    """Checks one directory."""

    def __init__(self, directory: Path, arguments: argparse.Namespace, *, is_live: bool) -> None:
        self.is_damaged = False
        self._directory = directory
        self._repair: bool = arguments.repair
        self._json: bool = arguments.json
        self._is_live = is_live
        self._is_closed = not is_live and (directory / CLEAN_SHUTDOWN_FILE).exists()
        self._totals = PartitionReport(directory)
        self._partitions = 0
        self._lowered: dict[TopicPartition, int] = {}
        self._recovery_points: Mapping[TopicPartition, int] = {}
        self._log_start_offsets: Mapping[TopicPartition, int] = {}
        self._raised: dict[TopicPartition, int] = {}
        self._is_compacted: dict[str, bool] = {}
        self._topic_ids: dict[TopicPartition, TopicId] = {}
        with suppress(MalformedCheckpoint):  # check_directory reports it
            self._recovery_points = read_offsets(directory / RECOVERY_POINT_FILE)
        with suppress(MalformedCheckpoint):
            self._log_start_offsets = read_offsets(directory / LOG_START_OFFSET_FILE)

    def read_metadata(self) -> None:
        """Reads which partitions exist, and which of them are compacted."""
        path = metadata_file(self._directory)
        if is_lost(path):
            if not self._has_other_metadata():
                self._check_lost_metadata(path)
            return
        try:
            image = read_image(path)
        except MetadataStoreError as error:
            self._found(Finding(Severity.DAMAGE, path, str(error)))
            return
        for topic in image.topics.values():
            self._is_compacted[topic.name] = TopicConfig.from_mapping(topic.configs).compact
            for each in topic.partitions:
                self._topic_ids[TopicPartition(topic.name, each.index)] = topic.topic_id

    def _has_other_metadata(self) -> bool:
        """Returns whether the metadata are in a log of Apache Kafka, or in a store that brokers share."""
        if (self._directory / METADATA_FOLDER).is_dir():
            return True
        try:
            properties = MetaProperties.read(self._directory)
        except InconsistentDataDirectory:
            return False  # check_directory reports it
        return properties is not None and properties.store is not None

    def _check_lost_metadata(self, path: Path) -> None:
        try:
            refuse_lost_metadata(self._directory)
        except InconsistentDataDirectory:
            pass  # check_directory reports it
        except MetadataLost as error:
            self._found(Finding(Severity.DAMAGE, path, str(error)))

    # -- checks --------------------------------------------------------------------------------------------------------

    def check_directory(self) -> None:
        """Checks the files of the directory itself."""
        try:
            MetaProperties.read(self._directory)
        except InconsistentDataDirectory as error:
            self._found(Finding(Severity.DAMAGE, self._directory, str(error)))
        for path in data_files(self._directory):
            if kind_of(path) is FileKind.OFFSETS:
                try:
                    read_offsets(path)
                except MalformedCheckpoint as error:
                    self._found(Finding(Severity.DERIVED, path, f"{error}; the next start continues without it"))

    def check_partition(self, folder: Path) -> None:
        """Checks the folder of a partition."""
        partition = parse_directory_name(folder.name)
        assert partition is not None
        self._check(partition, verify_partition(folder, self._known_of(partition)))

    def check_missing(self, folders: Collection[Path]) -> None:
        """Reports partitions that had records on disk and whose folders are missing."""
        for partition, recovery_point in self._recovery_points.items():
            folder = self._directory / str(partition)
            is_known = partition in self._topic_ids or not self._topic_ids
            if recovery_point and is_known and folder not in folders:
                self._check(partition, verify_missing(folder, self._known_of(partition)))

    def _known_of(self, partition: TopicPartition) -> KnownOfPartition:
        return KnownOfPartition(
            recovery_point=self._recovery_points.get(partition, 0),
            log_start_offset=self._log_start_offsets.get(partition),
            is_compacted=self._is_compacted.get(partition.topic),
            is_closed=self._is_closed,
            is_live=self._is_live,
        )

    def _check(self, partition: TopicPartition, report: PartitionReport) -> None:
        self._partitions += 1
        self._totals.segments += report.segments
        self._totals.batches += report.batches
        self._totals.size_bytes += report.size_bytes
        for finding in report.findings:
            self._found(finding)
        if self._repair:
            for line in mend_partition(report):
                self._say("mended", line)
            offset = will_be_looked_through(report)
            if offset is not None:
                self._lowered[partition] = offset
            start = log_start_after(report)
            if start is not None:
                self._raised[partition] = start
                topic_id = self._topic_ids.get(partition)
                if topic_id is not None:
                    write_topic_id(report.folder, topic_id)

    def finish(self) -> None:
        """Updates the checkpoints of the repaired partitions for the next start, and prints the totals."""
        if self._raised:
            raise_log_start_offsets(self._directory, self._raised)
        if self._lowered:
            lower_recovery_points(self._directory, self._lowered)
            self._say("mended", f"the next start looks through {count(len(self._lowered), 'log')} that changed")
        totals = self._totals
        if self._json:
            summary = {
                "type": "summary",
                "partitions": self._partitions,
                "segments": totals.segments,
                "batches": totals.batches,
                "size_bytes": totals.size_bytes,
                "is_damaged": self.is_damaged,
                "is_live": self._is_live,
            }
            print(json.dumps(summary))
            return
        if self._is_live:
            print("a broker has the directory open: the ends of its logs may be incomplete")
        looked_at = (
            f"{count(self._partitions, 'partition')}, {count(totals.segments, 'segment')}, "
            f"{count(totals.batches, 'batch', 'batches')}, {count(totals.size_bytes, 'byte')}"
        )
        print(f"checked {looked_at}: {'problems remain' if self.is_damaged else 'no problems'}")

    # -- output --------------------------------------------------------------------------------------------------------

    def _found(self, finding: Finding) -> None:
        is_mended = self._repair and finding.mend is not None
        if finding.severity is not Severity.NOTE and not is_mended:
            self.is_damaged = True
        if self._json:
            shown: dict[str, Any] = {
                "type": "finding",
                "severity": str(finding.severity),
                "path": str(finding.path),
                "position": finding.position,
                "offset": finding.offset,
                "text": finding.text,
                "repair": str(finding.mend.kind) if finding.mend is not None else None,
            }
            print(json.dumps(shown))
        else:
            print(f"{finding.severity}: {finding.path}: {finding.text}")

    def _say(self, kind: str, text: str) -> None:
        print(json.dumps({"type": kind, "text": text}) if self._json else f"{kind}: {text}")
