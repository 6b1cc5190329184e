"""`klamm log dump`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.cli.log.data_directory import RECORDS, closed_directory, directory, lines

from klamm.cli.log.log_records import DECODERS
from klamm.cli.main import main
from klamm.protocol.control_batch import EndTransactionMarker, encode_end_transaction_marker
from klamm.protocol.coordinator_records import encode_record_key, encode_record_value
from klamm.protocol.records import Record, encode_batch
from klamm.protocol.schema.transaction_log_key import TransactionLogKey
from klamm.protocol.schema.transaction_log_value import TransactionLogValue
from klamm.protocol.types import Millis, Offset, ProducerEpoch, ProducerId

__all__ = ["closed_directory", "directory"]


def test_a_whole_directory_is_shown(closed_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The dump of a directory shows its own files and those of each partition, without complaints."""
    rows = list(lines(capsys, "log", "dump", "--records", str(closed_directory)))
    files = {Path(row["path"]).name: row["kind"] for row in rows if row["type"] == "file"}
    assert files["metadata.sqlite"] == "metadata store"
    assert files["recovery-point-offset-checkpoint"] == "offsets of partitions"
    assert files[f"{0:020d}.log"] == "segment"
    assert files[f"{0:020d}.timeindex"] == "time index"
    assert files[f"{RECORDS:020d}.snapshot"] == "producer snapshot"
    assert not [row for row in rows if row["type"] == "complaint"]
    assert not [row for row in rows if row["type"] == "record" and row.get("complaint")]


def test_records_are_shown_with_all_that_they_hold(closed_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Records are shown completely with any codec; --from and --to choose a range of offsets."""
    partition = str(closed_directory / "orders-0" / f"{0:020d}.log")
    rows = list(lines(capsys, "log", "dump", "--records", partition))
    records = [row for row in rows if row["type"] == "record"]
    assert [row["offset"] for row in records] == list(range(RECORDS))
    assert records[3]["key"] == "k3"
    assert records[-1]["value"] == f"value {RECORDS // 2 - 1}"
    assert records[-1]["headers"] == [["codec", "zstd"]]
    batches = [row for row in rows if row["type"] == "batch"]
    assert {row["compression"] for row in batches} == {"none", "zstd"}
    assert sum(row["records"] for row in batches) == RECORDS
    assert batches[0]["base_sequence"] == 0
    chosen = lines(capsys, "log", "dump", "--records", "--from", "5", "--to", "8", partition)
    assert [row["offset"] for row in chosen if row["type"] == "record"] == [5, 6, 7, 8]


def test_internal_topics_are_opened(closed_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Records of internal topics are decoded by the name of the folder, unless --decode says otherwise."""
    offsets = str(closed_directory / "__consumer_offsets-0")
    records = [row for row in lines(capsys, "log", "dump", "--records", offsets) if row["type"] == "record"]
    (commit,) = (row for row in records if row["name"] == "OffsetCommit")
    assert commit["key"] == {"group": "billing", "topic": "orders", "partition": 0}
    assert commit["value"]["offset"] == 7
    plain = lines(capsys, "log", "dump", "--records", "--decode", "none", offsets)
    assert all("name" not in row for row in plain if row["type"] == "record")


def test_people_get_lines(closed_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without --json the dump is readable lines."""
    assert main(["log", "dump", "--records", str(closed_directory / "orders-0")]) == 0
    shown = capsys.readouterr().out
    assert f"{0:020d}.log: segment, " in shown
    assert "key 'k3'  value 'value 3'  headers codec: 'none'" in shown
    assert "zstd  leader epoch 0  CreateTime 2" in shown
    assert "  epoch 0  start offset 0\n" in shown
    assert main(["log", "dump", "--records", str(closed_directory / "__consumer_offsets-0")]) == 0
    assert 'OffsetCommit  {"group": "billing", "topic": "orders", "partition": 0}' in capsys.readouterr().out


def test_damage_is_shown_and_the_rest_of_the_file_too(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Damage is shown with its position, the rest of the file too, and the exit status is 1."""
    path = directory / "orders-0" / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    content[70] ^= 1
    path.write_bytes(content + b"torn")
    rows = list(lines(capsys, "log", "dump", str(path), status=1))
    complaints = [row["text"] for row in rows if row["type"] == "complaint"]
    assert "no batch from position 0" in complaints[0]
    assert "CRC" in complaints[0]
    assert f"to {len(content) + 4} (4 bytes)" in complaints[1]
    assert [row for row in rows if row["type"] == "batch"]
    snapshot = directory / "orders-0" / f"{RECORDS:020d}.snapshot"
    snapshot.write_bytes(snapshot.read_bytes()[:-1])
    assert main(["log", "dump", str(snapshot)]) == 1
    assert "! the CRC does not match" in capsys.readouterr().out


def test_markers_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Transaction markers, which applications never see, are shown as commit or abort."""
    markers = [
        encode_end_transaction_marker(
            EndTransactionMarker(is_commit, 4),
            producer_id=ProducerId(9),
            producer_epoch=ProducerEpoch(1),
            timestamp_ms=Millis(5),
        )
        for is_commit in (True, False)
    ]
    second = (1).to_bytes(8, "big") + markers[1][8:]
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(markers[0] + second)
    rows = [row for row in lines(capsys, "log", "dump", "--records", str(path)) if row["type"] == "record"]
    assert [(row["name"], row["value"]) for row in rows] == [
        ("commit", {"coordinator_epoch": 4}),
        ("abort", {"coordinator_epoch": 4}),
    ]


def test_transactions_are_opened() -> None:
    """Records of the transaction log are decoded: key, value, and a tombstone without a value."""
    key = encode_record_key(TransactionLogKey(transactional_id="t"))
    value = encode_record_value(TransactionLogValue(producer_id=7, producer_epoch=1), 1)
    opened = DECODERS["transactions"](Record(Offset(0), Millis(0), key, value, ()))
    assert (opened.name, opened.key, opened.version) == ("TransactionLog", {"transactional_id": "t"}, 1)
    assert opened.value["producer_id"] == 7
    assert DECODERS["transactions"](Record(Offset(0), Millis(0), key, None, ())).value is None


@pytest.mark.parametrize("decoder", sorted(DECODERS))
@pytest.mark.parametrize("data", [None, b"", b"\x7f\x7f\x7f", b"\x00\x00"])
def test_what_is_no_such_record_is_shown_as_it_is(decoder: str, data: bytes | None) -> None:
    """A record that a decoder can't read gets a complaint and does not end the dump."""
    for key, value in ((data, data), (b"\x00\x01", data)):
        meaning = DECODERS[decoder](Record(Offset(0), Millis(0), key, value, ()))
        assert meaning.complaint or meaning.name


def test_bytes_that_are_no_text_survive_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json, bytes that are not valid text are shown in base64."""
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(encode_batch([(1, b"\xff\x00", None, (("h", b"\xfe"),))]))
    (row,) = (row for row in lines(capsys, "log", "dump", "--records", str(path)) if row["type"] == "record")
    assert (row["key"], row["value"], row["headers"]) == ({"base64": "/wA="}, None, [["h", {"base64": "/g=="}]])


@pytest.mark.parametrize("name", ["missing.log", "notes.txt", "folder"])
def test_what_is_no_data_is_refused(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A path without Kafka data is refused with an error message."""
    (tmp_path / "notes.txt").touch()
    (tmp_path / "folder").mkdir()
    assert main(["log", "dump", str(tmp_path / name)]) == 1
    assert capsys.readouterr().err.startswith("klamm log: ")
