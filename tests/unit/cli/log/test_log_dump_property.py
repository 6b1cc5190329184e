"""Tests that `klamm log dump` handles any file content without a crash."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

from klamm.cli.main import main
from klamm.protocol.record_batch import BatchHeader, pack_header
from klamm.protocol.records import encode_batch, read_batch_header
from klamm.storage.directory.metadata_files import FIRST_SNAPSHOT

NAMES = (
    f"{7:020d}.log",
    f"{7:020d}.index",
    f"{7:020d}.timeindex",
    f"{7:020d}.txnindex",
    f"{7:020d}.snapshot",
    FIRST_SNAPSHOT,
    "leader-epoch-checkpoint",
    "recovery-point-offset-checkpoint",
    "partition.metadata",
    "metadata.sqlite",
)
ONCE = settings(
    max_examples=examples(40),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)


def _dump(*words: str) -> int:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return main(["log", "dump", "--records", *words])


@pytest.mark.parametrize("name", NAMES)
@ONCE
@given(content=st.binary(max_size=300), as_json=st.booleans())
def test_any_bytes_in_any_file(tmp_path: Path, name: str, content: bytes, as_json: bool) -> None:
    """For any bytes in any file, the command exits with 0 or 1."""
    path = tmp_path / name
    path.write_bytes(content)
    assert _dump(*(["--json"] if as_json else []), str(path)) in (0, 1)


@ONCE
@given(
    payload=st.binary(max_size=120),
    count=st.integers(0, 20),
    attributes=st.integers(0, 0x7F),
    decode=st.sampled_from(["auto", "offsets", "transactions", "share", "metadata", "history"]),
)
def test_any_bytes_in_a_batch(tmp_path: Path, payload: bytes, count: int, attributes: int, decode: str) -> None:
    """For any bytes in a batch with a valid header and CRC, the command exits with 0 or 1."""
    header = read_batch_header(encode_batch([(0, None, b"", ())]))
    changed: BatchHeader = header._replace(
        attributes=attributes, records_count=count, last_offset_delta=max(count, 1) - 1
    )
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(pack_header(changed, payload) + payload)
    assert _dump("--decode", decode, str(path)) in (0, 1)


@ONCE
@given(key=st.none() | st.binary(max_size=40), value=st.none() | st.binary(max_size=80), is_control=st.booleans())
@pytest.mark.parametrize("decode", ["offsets", "transactions", "share", "metadata", "history"])
def test_any_bytes_in_a_record(
    tmp_path: Path, key: bytes | None, value: bytes | None, is_control: bool, decode: str
) -> None:
    """Records that can't be decoded do not fail the dump, which exits with 0."""
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(encode_batch([(0, key, value, ())], is_control=is_control))
    assert _dump("--decode", decode, str(path)) == 0
