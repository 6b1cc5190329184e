"""Tests that batches which are sent from their file equal the batches that a read returns."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.log_folder import LogFolder, append, batch

from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import Offset
from klamm.storage.log import log_reader
from klamm.storage.log.log import Log
from klamm.storage.log.stored_batches import StoredBatches

COUNTS = [1, 4, 2, 9, 1, 1, 6, 3, 2, 5, 1, 8]
ENDS = [sum(COUNTS[: index + 1]) for index in range(len(COUNTS))]
END = ENDS[-1]


@pytest.fixture(scope="module", autouse=True)
def any_number_stays() -> Iterator[None]:
    """Makes answers of any size stay in the file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_reader, "SENT_FROM_FILE_BYTES", 1)
        yield


def filled(path: Path) -> LogFolder:
    """Returns a log of several segments with batches of several sizes."""
    folder = LogFolder(path / "data")
    log = folder.create(segment_bytes=1500, index_interval_bytes=150)
    for count in COUNTS:
        append(log, batch(count, value=bytes(10 * count)))
    assert log.segment_count > 2
    return folder


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    return filled(tmp_path_factory.mktemp("stored")).log()


@given(
    offset=st.integers(0, END),
    max_bytes=st.integers(0, 4000),
    upper_bound=st.sampled_from([0, *ENDS]),
    minimum_one_batch=st.booleans(),
)
def test_what_stays_is_what_would_have_been_read(
    log: Log, offset: int, max_bytes: int, upper_bound: int, minimum_one_batch: bool
) -> None:
    """`read_to_send` gives the same bytes as `read`, also at the offsets that follow."""
    for _ in range(3):
        bound = Offset(upper_bound)
        read = log.read(Offset(offset), max_bytes, upper_bound=bound, minimum_one_batch=minimum_one_batch)
        left = log.read_to_send(Offset(offset), max_bytes, upper_bound=bound, minimum_one_batch=minimum_one_batch)
        assert len(left) == len(read)
        assert (left.read() if isinstance(left, StoredBatches) else left) == read
        offset = next((end for end in ENDS if end > offset), END)


def test_most_reads_of_much_stay(log: Log) -> None:
    """A read stays in the file, unless its first batch is larger than the limit."""
    assert isinstance(log.read_to_send(Offset(0), 1000, upper_bound=Offset(END), minimum_one_batch=True), StoredBatches)
    assert isinstance(log.read_to_send(Offset(0), 10, upper_bound=Offset(END), minimum_one_batch=True), bytes)


def test_a_socket_gets_what_it_takes(log: Log) -> None:
    """`send` writes the requested number of bytes to a socket, from any byte on."""
    read = bytes(log.read(Offset(0), 1000, upper_bound=Offset(END), minimum_one_batch=True))
    left = log.read_to_send(Offset(0), 1000, upper_bound=Offset(END), minimum_one_batch=True)
    assert isinstance(left, StoredBatches)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert left.send(ours.fileno(), 0, 100) == 100
        assert left.send(ours.fileno(), 100, 10_000) == len(read) - 100
        assert theirs.recv(10_000, socket.MSG_WAITALL | socket.MSG_DONTWAIT) == read
    assert left.read(70) == read[70:]


def test_what_lay_on_the_disk_before_is_checked_first(tmp_path: Path) -> None:
    """After a restart, the first read is checked in memory, and later reads are sent from the file."""
    folder = filled(tmp_path)
    folder.restart()
    log = folder.log()
    first = log.read_to_send(Offset(0), 1000, upper_bound=Offset(END), minimum_one_batch=True)
    second = log.read_to_send(Offset(0), 1000, upper_bound=Offset(END), minimum_one_batch=True)
    assert not isinstance(first, StoredBatches)
    assert isinstance(second, StoredBatches)
    assert second.read() == first


def test_a_file_that_lost_its_end_is_an_error_for_the_next_reader(tmp_path: Path) -> None:
    """If a file lost its end, sending from it fails, and the next read is answered with KAFKA_STORAGE_ERROR.

    The sender finds the damage too late to report it to its client.
    """
    log = filled(tmp_path).log()
    left = log.read_to_send(Offset(0), 1000, upper_bound=Offset(END), minimum_one_batch=True)
    assert isinstance(left, StoredBatches)
    os.truncate(log.directory / f"{0:020d}.log", 100)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert left.send(ours.fileno(), 0, 10_000) == 100
        with pytest.raises(OSError, match="ends before position"):
            left.send(ours.fileno(), 100, 10_000)
    with pytest.raises(OSError, match="ends before position"):
        left.read()
    left.failed()
    with pytest.raises(KafkaError, match="the file has only 100 of") as raised:
        log.read_to_send(Offset(0), 1000, upper_bound=Offset(END), minimum_one_batch=True)
    assert raised.value.code == ErrorCode.KAFKA_STORAGE_ERROR
