"""`klamm log verify`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.cli.log.data_directory import RECORDS, closed_directory, directory, lines

from klamm.cli.main import main
from klamm.storage.directory.file_lock import FileLock
from klamm.storage.directory.meta_properties import MetaProperties
from klamm.testing import Broker

__all__ = ["closed_directory", "directory"]


def _segment(directory: Path) -> Path:
    return directory / "orders-0" / f"{0:020d}.log"


def _flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def test_a_sound_directory_is_well(closed_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An intact directory is read completely and reported as intact, and its partition files do not change."""
    before = {path: path.stat().st_mtime_ns for path in closed_directory.rglob("*") if path.name != ".lock"}
    assert main(["log", "verify", str(closed_directory)]) == 0
    assert "checked 3 partitions, " in (shown := capsys.readouterr().out), shown
    assert "no problems" in shown
    after = {path: path.stat().st_mtime_ns for path in before}
    assert {path for path in before if before[path] != after[path]} <= {
        closed_directory,
        closed_directory / "metadata.sqlite",
    }


def test_damage_is_shown_and_left(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Damage is shown with file, position and offset, and no file is changed; a single partition can be verified
    too."""
    _flip(_segment(directory), 70)
    damaged = _segment(directory).read_bytes()
    for path in (directory, directory / "orders-0"):
        finding, summary = lines(capsys, "log", "verify", str(path), status=1)
        assert (finding["severity"], finding["path"]) == ("damage", str(_segment(directory)))
        assert (finding["position"], finding["offset"], finding["repair"]) == (0, 0, "salvage")
        assert summary["is_damaged"]
    assert _segment(directory).read_bytes() == damaged


def test_a_repaired_directory_is_served(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A broker serves a repaired directory: the damaged partition has all records after the damaged batch."""
    _flip(_segment(directory), 70)
    assert main(["log", "verify", str(directory), "--repair"]) == 0
    shown = capsys.readouterr().out
    assert "damage: " in shown
    assert f"mended: {_segment(directory)} was moved to {0:020d}.log.quarantined" in shown
    assert main(["log", "verify", str(directory)]) == 0
    assert "no problems" in capsys.readouterr().out
    with Broker(data_dir=directory) as broker:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": "reader",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.assign([TopicPartition("orders", 0, 0)])
        offsets: list[int] = []
        while not offsets or offsets[-1] < RECORDS - 1:
            message = consumer.poll(30)
            assert message is not None, offsets
            assert message.error() is None, message.error()
            offsets.append(message.offset() or 0)
        consumer.close()
    assert offsets == list(range(offsets[0], RECORDS))
    assert 0 < offsets[0] < RECORDS


def test_nothing_is_repaired_while_a_broker_runs(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A directory with a running broker can be verified but not repaired; an incomplete batch is then not damage."""
    path = _segment(directory)
    path.write_bytes(path.read_bytes() + b"half a batch")
    lock = FileLock(directory)
    try:
        assert main(["log", "verify", str(directory), "--repair"]) == 1
        assert "a broker runs on" in capsys.readouterr().err
        assert main(["log", "verify", str(directory)]) == 0
        assert "being written" in capsys.readouterr().out
    finally:
        lock.release()
    assert path.read_bytes().endswith(b"half a batch")


def test_a_directory_that_cannot_be_locked_can_be_looked_at(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A directory that can't be locked, for example on a read-only disk, can be verified; a repair fails and names the
    lock file."""
    (directory / ".lock").unlink(missing_ok=True)
    (directory / ".lock").mkdir()
    _flip(_segment(directory), 70)
    assert main(["log", "verify", str(directory)]) == 1
    assert "damage: " in capsys.readouterr().out
    assert main(["log", "verify", str(directory), "--repair"]) == 1
    assert ".lock" in capsys.readouterr().err


def test_a_torn_tail_is_told_from_damage(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An incomplete batch at the end is damage after a clean stop. After a crash it is a torn tail, which the next
    start cuts."""
    path = _segment(directory)
    path.write_bytes(path.read_bytes() + b"half a batch")
    finding, _ = lines(capsys, "log", "verify", str(directory), status=1)
    assert finding["severity"] == "damage"
    (directory / ".kafka_cleanshutdown").unlink()
    finding, _ = lines(capsys, "log", "verify", str(directory), status=1)
    assert (finding["severity"], finding["repair"]) == ("torn tail", "cut")
    *_, summary = lines(capsys, "log", "verify", str(directory), "--repair")
    assert not summary["is_damaged"]


def test_files_of_the_directory_are_looked_at(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command verifies the directory's own files: checkpoints, meta.properties and the metadata."""
    (directory / "replication-offset-checkpoint").write_text("0\n5\n")
    (directory / "meta.properties").write_text("version=9\n")
    (directory / "metadata.sqlite").write_bytes(b"no database" * 100)
    *findings, _ = lines(capsys, "log", "verify", str(directory), status=1)
    assert [(row["severity"], Path(row["path"]).name) for row in findings] == [
        ("damage", "metadata.sqlite"),
        ("damage", "data"),
        ("derived", "replication-offset-checkpoint"),
    ]


def test_what_is_no_data_directory_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A directory without Kafka data is refused, and no file is created in it."""
    assert main(["log", "verify", str(tmp_path)]) == 1
    assert "neither a data directory nor the folder of a partition" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("is_empty", [False, True])
def test_lost_metadata_is_damage(directory: Path, is_empty: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """A missing or empty metadata store is damage, because no broker starts without it. A directory of Apache Kafka has
    no such store."""
    path = directory / "metadata.sqlite"
    path.unlink()
    if is_empty:
        path.touch()
    finding, summary = lines(capsys, "log", "verify", str(directory), status=1)
    assert (finding["severity"], finding["path"], finding["repair"]) == ("damage", str(path), None)
    assert "Bring metadata.sqlite back from a copy" in finding["text"]
    assert summary["is_damaged"]
    path.unlink(missing_ok=True)
    (directory / "__cluster_metadata-0").mkdir()
    assert main(["log", "verify", str(directory)]) == 0


def test_metadata_in_etcd_are_not_missing(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The directory of a broker whose metadata are in etcd has no metadata store of its own, and is intact."""
    (directory / "metadata.sqlite").unlink()
    properties = MetaProperties.read(directory)
    assert properties is not None
    properties._replace(store=("31ce2beccd1776a0", "orders", 86)).write(directory)
    assert main(["log", "verify", str(directory)]) == 0, capsys.readouterr()
    assert "no problems" in capsys.readouterr().out
