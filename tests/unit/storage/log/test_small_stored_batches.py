"""Tests that a small answer is read into memory and not sent from the file, whatever the limits of the reader are."""

from __future__ import annotations

from pathlib import Path

from tests.support.log_folder import LogFolder, append, batch

from klamm.protocol.types import Offset

_LIMIT_BYTES = 70_000


def test_a_small_batch_before_a_batch_beyond_the_limit_is_read(tmp_path: Path) -> None:
    """A small batch before a batch beyond the limit is read into memory, although the limit allows sending from the
    file."""
    log = LogFolder(tmp_path / "data").create()
    append(log, batch(1, value=b"small"))
    append(log, batch(1, value=bytes(100_000)))
    read = log.read_to_send(Offset(0), _LIMIT_BYTES, upper_bound=Offset(2), minimum_one_batch=True)
    assert isinstance(read, bytes | memoryview)
    assert len(read) < 4096
