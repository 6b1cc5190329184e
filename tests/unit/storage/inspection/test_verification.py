"""Looking through a partition's folder: what is wrong is found, and named with its place."""

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
from klamm.storage.transaction_index import AbortedTransaction, encode_entries


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Thirty batches in several segments, with entries in their indexes and snapshots, closed in order."""
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
    """And everything in it was looked at."""
    report = _verify(partition)
    assert not report.findings
    assert (report.segments, report.batches, report.log_end_offset) == (len(_logs(partition)), 30, 60)
    assert report.size_bytes == sum(path.stat().st_size for path in _logs(partition))


def test_a_flipped_bit_is_damage_at_its_batch(partition: Path) -> None:
    """With position and offset; a repair would keep the rest of the segment."""
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
    """Beyond the recovery point, after a stop that was no clean one, it is what a crash leaves (I8)."""
    path = _logs(partition)[-1]
    path.write_bytes(path.read_bytes()[:-7])
    (partition / f"{60:020d}.snapshot").unlink()  # it would vouch for all of it
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
    """Even where every batch is whole."""
    severity, name, text, mend = _only(_verify(partition, KnownOfPartition(70, 0, False, True)))
    assert (severity, name, mend) == (Severity.DAMAGE, _logs(partition)[-1].name, MendKind.ACCEPT)
    assert text == "it ends at offset 60, but records up to offset 70 were on the disk"


def test_a_missing_segment_is_missed(partition: Path) -> None:
    """In a compacted topic as well: klamm's cleaner leaves no gap between two segments, and others are noted. Without
    the metadata nobody can tell."""
    gone, following = _logs(partition)[1:3]
    for path in partition.glob(f"{gone.stem}.*"):
        path.unlink()
    severity, name, text, mend = _only(_verify(partition))
    assert (severity, name, mend) == (Severity.DAMAGE, following.name, MendKind.ACCEPT_GAP)
    assert text == f"the offsets {int(gone.stem)} to {int(following.stem) - 1} are missing before it"
    assert _only(_verify(partition, KnownOfPartition(60, 0, True, True)))[0] is Severity.DAMAGE
    assert _only(_verify(partition, KnownOfPartition(60, 0, None, True)))[0] is Severity.NOTE


def test_a_folder_without_segments_is_damaged(partition: Path) -> None:
    """If there was anything in it."""
    for path in _logs(partition):
        path.unlink()
    findings = _verify(partition).findings
    assert findings[0].severity is Severity.DAMAGE
    assert findings[0].text == "there is no segment, but records up to offset 60 were on the disk"
    assert findings[0].mend is not None
    assert findings[0].mend.kind is MendKind.BEGIN_AGAIN


def test_a_missing_beginning_is_damage(partition: Path) -> None:
    """If it was noted where the log begins. Files that retention has let go of tell that, too."""
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
    """If its topic is known to be there; else it may have been deleted."""
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
    """As kafka-dump-log looks at them; an index is built anew."""
    path = partition / f"{0:020d}{suffix}"
    content = bytearray(path.read_bytes())
    pack_into(">i", content, at, value)
    path.write_bytes(content)
    severity, name, text, mend = _only(_verify(partition))
    assert (severity, name, mend) == (Severity.DERIVED, path.name, MendKind.REMOVE)
    assert words in text


def test_an_index_that_earlier_versions_of_kafka_wrote_is_good(partition: Path) -> None:
    """One entry for several batches: the position of the first, the offset and the largest timestamp of the last."""
    offsets, times = (partition / f"{0:020d}{suffix}" for suffix in (".index", ".timeindex"))
    batches = list(iterate_batches(_logs(partition)[0].read_bytes()))
    position, _ = batches[1]
    _, third = batches[3]
    offsets.write_bytes(pack(">ii", third.last_offset, position))
    times.write_bytes(pack(">qi", third.max_timestamp, third.base_offset))
    assert not _verify(partition).findings


def test_an_index_of_half_an_entry_is_found(partition: Path) -> None:
    """Zeros after the entries are what Kafka leaves in a file that it did not close; an absent index is no fault."""
    path = partition / f"{0:020d}.index"
    content = path.read_bytes()
    path.write_bytes(content + bytes(800))
    assert not _verify(partition).findings
    path.write_bytes(content + b"abc")
    assert _only(_verify(partition))[2] == "3 bytes at the end are too few for an entry"
    path.unlink()
    assert not _verify(partition).findings


def test_other_files_are_looked_at(partition: Path) -> None:
    """Snapshots, transaction indexes, epochs; what a repair left is named."""
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
    """Those of one segment stand together; what is being removed or was put aside is none of them."""
    (partition / f"{0:020d}.log.deleted").touch()
    (partition / f"{0:020d}.log.quarantined").touch()
    kinds = [kind_of(path) for path in data_files(partition)]
    assert kinds[:3] == [FileKind.OFFSET_INDEX, FileKind.SEGMENT, FileKind.TIME_INDEX]
    assert FileKind.OTHER not in kinds
    assert kinds[-2:] == [FileKind.LEADER_EPOCHS, FileKind.TEXT]
    assert not is_data_directory(partition)
    assert is_data_directory(partition.parent)
    assert partition_folders(partition.parent) == [partition]
