"""Tests a process that writes a log and is killed, or whose disk is full: real processes on the real system."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.faults.load import ROUNDS
from tests.support import faulty_disk
from tests.support.faulty_disk import FaultyDisk
from tests.support.log_folder import ORDERS, LogFolder, append, read_all, read_bytes

from klamm.protocol.record_batch import batch_crc_is_valid, iterate_batches

_ROOT = Path(__file__).parents[2]

# Writes numbered records of several sizes, and prints the number of each acknowledged record.
_WRITER = """
import os, sys
from pathlib import Path
from klamm.protocol.errors import KafkaError
from tests.support.log_folder import LogFolder, append, batch
folder = LogFolder(Path(sys.argv[1]))
log = folder.create(segment_bytes=200_000, flush_messages=50)
number = 0
while True:
    append(log, batch(value=b"%d " % number + bytes(number * 37 % 3000), sequence=number, producer_id=1, epoch=0))
    os.write(1, b"%d\\n" % number)
    number += 1
"""

# Continues a log; prints after each record the log end offset and the offset up to which the log is surely on the disk.
_SYNCER = """
import os, sys
from pathlib import Path
from tests.support.log_folder import ORDERS, LogFolder, append, batch
from klamm.config.topic_config import TopicConfig
folder = LogFolder(Path(sys.argv[1]), TopicConfig(segment_bytes=30_000, flush_messages=int(sys.argv[2])))
log = folder.directory.get(ORDERS) or folder.create()
folder.directory.checkpoint().result()
while True:
    number = log.log_end_offset
    append(log, batch(value=b"%d " % number + bytes(number * 37 % 3000)))
    os.write(1, b"%d %d\\n" % (log.log_end_offset, log.recovery_point))
    if number % 200 == 199:
        folder.directory.checkpoint()
"""

# Fills a disk with room for 50,000 bytes per file, then gets more room; prints the number of acknowledged records.
_FULL = """
import resource, sys
from pathlib import Path
from klamm.protocol.errors import ErrorCode, KafkaError
from tests.support.log_folder import LogFolder, append, batch, read_all
folder = LogFolder(Path(sys.argv[1]))
log = folder.create()
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, resource.RLIM_INFINITY))
acknowledged = refused = 0
while refused < 3:
    try:
        append(log, batch(value=b"%d" % acknowledged + bytes(777)))
        acknowledged += 1
    except KafkaError as error:
        assert error.code is ErrorCode.KAFKA_STORAGE_ERROR, error
        refused += 1
        assert len(read_all(log)) == acknowledged
        assert folder.log_files()[0].stat().st_size == log.size_bytes
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
append(log, batch(value=b"%d" % acknowledged))
folder.close()
print(acknowledged + 1)
"""


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(_ROOT)}


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(after_ms=st.integers(0, 400))
def test_a_killed_writer_leaves_all_that_it_acknowledged(
    tmp_path_factory: pytest.TempPathFactory, after_ms: int
) -> None:
    """I8: after SIGKILL in the middle of writing, the log contains all acknowledged records in order."""
    path = tmp_path_factory.mktemp("killed") / "data"
    with subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE, env=_environment(), cwd=_ROOT
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"0\n"
        time.sleep(after_ms / 1000)
        writer.send_signal(signal.SIGKILL)
        lines = writer.stdout.read().split(b"\n")
    acknowledged = int(lines[-2]) + 1 if len(lines) > 1 else 1
    folder = LogFolder(path)
    log = folder.log(ORDERS)
    assert not log.is_offline
    content = read_bytes(log)
    assert all(batch_crc_is_valid(content, position, header) for position, header in iterate_batches(content))
    numbers = [int((record.value or b"").split()[0]) for record in read_all(log)]
    assert numbers == list(range(len(numbers)))
    assert acknowledged <= len(numbers) <= acknowledged + 1
    folder.close()


@pytest.mark.timeout(120 + 5 * ROUNDS)
def test_what_was_synced_outlasts_the_power(tmp_path: Path) -> None:
    """I8: after a power failure, recovery finds a prefix of the written records that includes all synced records. This
    also holds after an earlier clean close, and for files and names that had not reached the disk."""
    reason = faulty_disk.why_not()
    if reason is not None:
        pytest.skip(reason)
    (tmp_path / "disk").mkdir()
    disk = FaultyDisk(tmp_path / "disk", tmp_path / "data")
    random = Random(8)
    for number in range(ROUNDS):
        if number % 5 == 0:
            shutil.rmtree(disk.root)
            disk.root.mkdir()
            disk.start_journal()
        with subprocess.Popen(
            [sys.executable, "-c", _SYNCER, str(disk.root), str(random.choice((1, 7, 50)))],
            stdout=subprocess.PIPE,
            env=_environment() | disk.environment,
            cwd=_ROOT,
        ) as writer:
            assert writer.stdout is not None
            lines = [writer.stdout.readline() for _ in range(random.randint(1, 400))]
            writer.send_signal(signal.SIGKILL)
            lines += writer.stdout.read().splitlines()
        written, synced = map(int, lines[-1].split())
        disk.power_off(random)
        folder = LogFolder(disk.root)
        log = folder.directory.get(ORDERS)
        if log is not None:
            assert log.offline_reason is None
            numbers = [int((record.value or b"").split()[0]) for record in read_all(log)]
            assert numbers == list(range(len(numbers)))
            assert synced <= len(numbers) <= written + 1
        else:
            assert synced == 0
        folder.close()
        disk.start_journal()


def test_a_full_disk_loses_nothing_and_heals_without_a_restart(tmp_path: Path) -> None:
    """Writes to a full disk fail with KAFKA_STORAGE_ERROR, torn bytes are removed, and reads continue. With room again,
    writes succeed."""
    path = tmp_path / "data"
    ran = subprocess.run(
        [sys.executable, "-c", _FULL, str(path)],
        capture_output=True,
        text=True,
        env=_environment(),
        cwd=_ROOT,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    folder = LogFolder(path)
    records = read_all(folder.log())
    assert [record.offset for record in records] == list(range(int(ran.stdout)))
    assert append(folder.log()).first_offset == len(records)
    folder.close()
