"""Tests how the metadata log of Apache Kafka is read from disk and written to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.exchange.metadata_log import (
    UnusableMetadataLog,
    read_bootstrap,
    read_metadata_log,
    write_bootstrap,
    write_first_snapshot,
)
from klamm.protocol.metadata_records import MetadataRecord, encode_metadata_batch
from klamm.protocol.schema.feature_level_record import FeatureLevelRecord
from klamm.protocol.schema.topic_record import TopicRecord
from klamm.protocol.schema.voters_record import Endpoint, Voter, VotersRecord
from klamm.protocol.types import LeaderEpoch, Millis, Offset
from klamm.storage.directory.metadata_files import FIRST_SNAPSHOT, METADATA_FOLDER, parse_snapshot_name

NOW_MS = Millis(1_700_000_000_000)


def _topics(*names: str) -> list[MetadataRecord]:
    return [MetadataRecord(TopicRecord(name=name, topic_id=name.encode().ljust(16, b"-")), 0) for name in names]


def _batch(offset: int, *names: str) -> bytes:
    return encode_metadata_batch(_topics(*names), offset=Offset(offset), epoch=LeaderEpoch(1), now_ms=NOW_MS)


def test_bootstrap_records_are_read_as_they_were_written(tmp_path: Path) -> None:
    """Bootstrap records are read in order, even if they fill several batches; a missing file has none."""
    assert read_bootstrap(tmp_path) == []
    records = [MetadataRecord(FeatureLevelRecord(name="metadata.version", feature_level=25), 0)]
    records += _topics(*(f"topic-{number}" for number in range(2500)))
    write_bootstrap(tmp_path, records, now_ms=NOW_MS)
    assert read_bootstrap(tmp_path) == records


def test_the_log_goes_on_where_the_newest_snapshot_ends(tmp_path: Path) -> None:
    """The log is read from the end of the newest snapshot on; older snapshots and records are skipped."""
    (tmp_path / f"{2:020d}-{1:010d}.checkpoint").write_bytes(_batch(0, "old"))
    (tmp_path / f"{4:020d}-{1:010d}.checkpoint").write_bytes(_batch(0, "a", "b"))
    (tmp_path / f"{0:020d}.log").write_bytes(_batch(0, "x", "x", "x") + _batch(3, "x", "c"))
    (tmp_path / f"{5:020d}.log").write_bytes(_batch(5, "d"))
    (tmp_path / "quorum-state").write_text("{}")
    assert list(read_metadata_log(tmp_path)) == _topics("a", "b", "c", "d")


def test_a_log_without_its_beginning_is_refused(tmp_path: Path) -> None:
    """A log that begins after offset 0 without a snapshot is refused, because its beginning is missing."""
    (tmp_path / f"{5:020d}.log").write_bytes(_batch(5, "d"))
    with pytest.raises(UnusableMetadataLog, match="begins at offset 5"):
        list(read_metadata_log(tmp_path))


def test_damage_is_named_with_its_place(tmp_path: Path) -> None:
    """A damaged log is refused as a whole, and the error names file and position."""
    path = tmp_path / f"{0:020d}.log"
    first = _batch(0, "a")
    path.write_bytes(first + _batch(1, "b")[:-1] + b"!")
    with pytest.raises(UnusableMetadataLog, match=rf"{path}.*position {len(first)}.*CRC"):
        list(read_metadata_log(tmp_path))


def test_a_record_of_a_later_kafka_is_refused(tmp_path: Path) -> None:
    """A record of an unknown type, as of a later Kafka, is refused, because it may matter."""
    known = _batch(0, "a")
    write_bootstrap(tmp_path, _topics("a"), now_ms=NOW_MS)
    from klamm.protocol.records import encode_batch

    (tmp_path / f"{0:020d}.log").write_bytes(known + encode_batch([(NOW_MS, None, b"\x01\x60\x00", ())], base_offset=1))
    with pytest.raises(UnusableMetadataLog, match="type 96"):
        list(read_metadata_log(tmp_path))


def test_the_first_snapshot_says_who_votes(tmp_path: Path) -> None:
    """The first snapshot holds the voters, and only control records, so that the bootstrap records apply."""
    endpoint = Endpoint(name="CONTROLLER", host="localhost", port=9093)
    voters = VotersRecord(voters=[Voter(voter_id=1, voter_directory_id=bytes(range(16)), endpoints=[endpoint])])
    write_first_snapshot(tmp_path, voters, now_ms=NOW_MS)
    folder = tmp_path / METADATA_FOLDER
    assert [path.name for path in folder.iterdir()] == [FIRST_SNAPSHOT]
    assert list(read_metadata_log(folder)) == []
    with pytest.raises(FileExistsError):
        write_first_snapshot(tmp_path, voters, now_ms=NOW_MS)


def test_snapshots_are_told_by_their_names() -> None:
    """Snapshots are recognized by their names; unfinished and deleted ones are not snapshots."""
    assert parse_snapshot_name(FIRST_SNAPSHOT) == (0, 0)
    assert parse_snapshot_name(f"{120:020d}-{7:010d}.checkpoint") == (120, 7)
    for name in (
        "bootstrap.checkpoint",
        FIRST_SNAPSHOT + ".deleted",
        FIRST_SNAPSHOT + ".part",
        "recovery-point-offset",
    ):
        assert parse_snapshot_name(name) is None
