"""Tests that the verification of a partition folder finds damage and reports its place."""

from __future__ import annotations

import shutil
from pathlib import Path
from struct import pack, pack_into

import pytest
from tests.support.log_folder import NOW_MS, ORDERS, LogFolder, append, batch

from klamm.protocol.record_batch import iterate_batches
from klamm.storage.inspection.data_files import FileKind, data_files, is_data_directory, kind_of, partition_folders
from klamm.storage.inspection.findings import MendKind, PartitionReport, Severity
from klamm.storage.inspection.verification import KnownOfPartition, verify_missing, verify_partition
from klamm.storage.segment.transaction_index import AbortedTransaction, encode_entries


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Returns a cleanly closed partition: thirty batches in several segments, with index entries and snapshots."""
    folder = LogFolder(tmp_path)
    folder.create(segment_bytes=800, index_interval_bytes=150)
    for number in range(30):
        records = batch(2, timestamp_ms=NOW_MS + number, sequence=2 * number, producer_id=5, epoch=0)
        append(folder.log(), records)
    folder.close()
    path = tmp_path / str(ORDERS)
    assert len(list(path.glob("*.log"))) > 2
    return path


def _verify(partition: Path, known: KnownOfPartition | None = None) -> PartitionReport:
    return verify_partition(partition, known if known is not None else KnownOfPartition(60, 0, False, True))


def _only(report: PartitionReport) -> tuple[Severity, str, str, MendKind | None]:
    (finding,) = report.findings
    return finding.severity, finding.path.name, finding.text, finding.mend.kind if finding.mend else None


def _logs(partition: Path) -> list[Path]:
    return sorted(partition.glob("*.log"))


def test_a_sound_partition_has_no_findings(partition: Path) -> None:
    """A sound partition has no findings, and the report counts all its segments, batches and bytes."""
    report = _verify(partition)
    assert not report.findings
    assert (report.segments, report.batches, report.log_end_offset) == (len(_logs(partition)), 30, 60)
    assert report.size_bytes == sum(path.stat().st_size for path in _logs(partition))


def test_a_flipped_bit_is_damage_at_its_batch(partition: Path) -> None:
    """A flipped bit is reported with its batch's position and offset, and a repair would keep all other batches."""
    path = _logs(partition)[1]
    content = bytearray(path.read_bytes())
    (_, first), (position, header) = list(iterate_batches(content))[:2]
    content[position + 65] ^= 8
    path.write_bytes(content)
    (finding,) = _verify(partition).findings
    assert finding[:2] == (Severity.DAMAGE, path)
    assert (finding.position, finding.offset) == (position, header.base_offset)
    assert "CRC" in finding.text
    assert finding.mend is not None
    assert finding.mend.kind is MendKind.SALVAGE
    assert finding.mend.keep == ((0, first.size_bytes), (position + header.size_bytes, len(content)))


def test_a_torn_tail_is_told_from_damage(partition: Path) -> None:
    """A torn tail beyond the recovery point after an unclean stop is no damage, because a crash leaves it (I8)."""
    path = _logs(partition)[-1]
    path.write_bytes(path.read_bytes()[:-7])
    (partition / f"{60:020d}.snapshot").unlink()  # the snapshot would vouch for the whole log
    for known, severity in (
        (KnownOfPartition(50, 0, False, False), Severity.TORN_TAIL),
        (KnownOfPartition(60, 0, False, False), Severity.DAMAGE),
        (KnownOfPartition(50, 0, False, True), Severity.DAMAGE),
        (KnownOfPartition(50, 0, False, False, is_live=True), Severity.NOTE),
    ):
        report = _verify(partition, known)
        assert report.findings[0].severity is severity, known
        assert report.log_end_offset == 58
    assert _only(_verify(partition, KnownOfPartition(50)))[3] is MendKind.CUT


def test_a_log_that_ends_before_its_recovery_point_is_damaged(partition: Path) -> None:
    """A log that ends before its recovery point is damaged, even if every batch is whole."""
    severity, name, text, mend = _only(_verify(partition, KnownOfPartition(70, 0, False, True)))
    assert (severity, name, mend) == (Severity.DAMAGE, _logs(partition)[-1].name, MendKind.ACCEPT)
    assert text == "it ends at offset 60, but records up to offset 70 were on the disk"


def test_a_missing_segment_is_missed(partition: Path) -> None:
    """A missing segment is damage, also in a compacted topic, because klamm's cleaner leaves no unnoted gap between
    segments.

    If the topic's policy is unknown, the missing segment is only a note.
    """
    gone, following = _logs(partition)[1:3]
    for path in partition.glob(f"{gone.stem}.*"):
        path.unlink()
    severity, name, text, mend = _only(_verify(partition))
    assert (severity, name, mend) == (Severity.DAMAGE, following.name, MendKind.ACCEPT_GAP)
    assert text == f"the offsets {int(gone.stem)} to {int(following.stem) - 1} are missing before it"
    assert _only(_verify(partition, KnownOfPartition(60, 0, True, True)))[0] is Severity.DAMAGE
    assert _only(_verify(partition, KnownOfPartition(60, 0, None, True)))[0] is Severity.NOTE


def test_a_folder_without_segments_is_damaged(partition: Path) -> None:
    """A partition folder without segments is damaged if the partition had records."""
    for path in _logs(partition):
        path.unlink()
    findings = _verify(partition).findings
    assert findings[0].severity is Severity.DAMAGE
    assert findings[0].text == "there is no segment, but records up to offset 60 were on the disk"
    assert findings[0].mend is not None
    assert findings[0].mend.kind is MendKind.BEGIN_AGAIN


def test_missing_files_of_deleted_records_are_no_damage(partition: Path) -> None:
    """A crash while a log begins again beyond its end may leave no segment, or only some: no start misses records that
    lie below the log start offset."""
    known = KnownOfPartition(60, 100, False, False)
    for path in _logs(partition)[1:]:
        path.unlink()
    assert not _verify(partition, known).findings
    _logs(partition)[0].unlink()
    assert not _verify(partition, known).findings


def test_a_missing_beginning_is_damage(partition: Path) -> None:
    """Missing segments at the beginning are damage if the log start offset lies before them.

    They are no damage if retention has marked them as deleted.
    """
    _logs(partition)[0].unlink()
    following = _logs(partition)[0]
    severity, name, text, mend = _only(_verify(partition, KnownOfPartition(60, 0, False, True)))
    assert (severity, name, mend) == (Severity.DAMAGE, following.name, MendKind.ACCEPT_START)
    assert text == f"the log begins at offset 0, and the offsets up to {int(following.stem) - 1} are missing before it"
    for start in (None, int(following.stem), int(following.stem) + 1):
        assert not _verify(partition, KnownOfPartition(60, start, False, True)).findings
    (partition / f"{0:020d}.log.{int(following.stem):020d}.deleted").touch()
    assert not _verify(partition, KnownOfPartition(60, 0, False, True)).findings


def test_a_missing_folder_is_damage(partition: Path) -> None:
    """A missing partition folder is damage if its topic is known; otherwise the topic may have been deleted."""
    shutil.rmtree(partition)
    severity, name, text, mend = _only(verify_missing(partition, KnownOfPartition(60, 0, False, True)))
    assert (severity, name, mend) == (Severity.DAMAGE, partition.name, MendKind.BEGIN_AGAIN)
    assert text == "it is gone, but records up to offset 60 were on the disk"
    assert _only(verify_missing(partition, KnownOfPartition(60)))[0] is Severity.NOTE


@pytest.mark.parametrize(
    ("suffix", "at", "value", "words"),
    [
        (".index", 4, 1, "position 1, where no batch is"),
        (".index", 0, 999, "names offset"),
        (".timeindex", 4, 7, "has timestamp"),
        (".timeindex", 8, 999, "not in the log"),
    ],
)
def test_index_entries_must_fit_the_log(partition: Path, suffix: str, at: int, value: int, words: str) -> None:
    """Index entries must match the log, by the rules of kafka-dump-log; a repair removes the index."""
    path = partition / f"{0:020d}{suffix}"
    content = bytearray(path.read_bytes())
    pack_into(">i", content, at, value)
    path.write_bytes(content)
    severity, name, text, mend = _only(_verify(partition))
    assert (severity, name, mend) == (Severity.DERIVED, path.name, MendKind.REMOVE)
    assert words in text


def test_an_index_that_earlier_versions_of_kafka_wrote_is_good(partition: Path) -> None:
    """An index entry of an earlier Kafka version, which covers several batches, is valid.

    The entry has the position of the first batch, and the offset and the largest timestamp of the last one.
    """
    offsets, times = (partition / f"{0:020d}{suffix}" for suffix in (".index", ".timeindex"))
    batches = list(iterate_batches(_logs(partition)[0].read_bytes()))
    position, _ = batches[1]
    _, third = batches[3]
    offsets.write_bytes(pack(">ii", third.last_offset, position))
    times.write_bytes(pack(">qi", third.max_timestamp, third.base_offset))
    assert not _verify(partition).findings


def test_an_index_of_half_an_entry_is_found(partition: Path) -> None:
    """An index with part of an entry at its end is reported; trailing zeros and an absent index are no fault.

    Kafka leaves zeros after the entries of an index that it did not close.
    """
    path = partition / f"{0:020d}.index"
    content = path.read_bytes()
    path.write_bytes(content + bytes(800))
    assert not _verify(partition).findings
    path.write_bytes(content + b"abc")
    assert _only(_verify(partition))[2] == "3 bytes at the end are too few for an entry"
    path.unlink()
    assert not _verify(partition).findings


def test_other_files_are_looked_at(partition: Path) -> None:
    """Damaged snapshots, transaction indexes and epoch files are reported, and a quarantined file is noted."""
    snapshot = sorted(partition.glob("*.snapshot"))[-1]
    snapshot.write_bytes(snapshot.read_bytes()[:-1])
    transactions = partition / f"{0:020d}.txnindex"
    aborted = AbortedTransaction(5, 0, 4, 5)  # type: ignore[arg-type]
    transactions.write_bytes(encode_entries([aborted, aborted]))
    (partition / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n")
    (partition / f"{0:020d}.log.quarantined").touch()
    found = {
        finding.path.name: (finding.severity, finding.mend and finding.mend.kind)
        for finding in _verify(partition).findings
    }
    assert found == {
        snapshot.name: (Severity.DERIVED, MendKind.SET_ASIDE),
        transactions.name: (Severity.DERIVED, MendKind.SET_ASIDE),
        "leader-epoch-checkpoint": (Severity.DERIVED, None),
        f"{0:020d}.log.quarantined": (Severity.NOTE, None),
    }


def test_files_are_told_by_their_names(partition: Path) -> None:
    """The files of one segment are listed together, without files that are deleted or quarantined."""
    (partition / f"{0:020d}.log.deleted").touch()
    (partition / f"{0:020d}.log.quarantined").touch()
    kinds = [kind_of(path) for path in data_files(partition)]
    assert kinds[:3] == [FileKind.OFFSET_INDEX, FileKind.SEGMENT, FileKind.TIME_INDEX]
    assert FileKind.OTHER not in kinds
    assert kinds[-2:] == [FileKind.LEADER_EPOCHS, FileKind.TEXT]
    assert not is_data_directory(partition)
    assert is_data_directory(partition.parent)
    assert partition_folders(partition.parent) == [partition]
