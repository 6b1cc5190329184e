"""Tests the start of a broker on a full disk: a small one in memory, mounted for the test.

The test needs permission to mount, and is skipped otherwise.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.interop.broker_process import BrokerProcess
from tests.support.small_disk import fill, small_disk
from tests.support.wire import Wire

from klamm.protocol.schema.create_topics_request import CreatableTopic, CreateTopicsRequest
from klamm.protocol.schema.create_topics_response import CreateTopicsResponse

KLAMM = Path(sys.executable).with_name("klamm")


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Returns a function that mounts a disk of the given number of kilobytes."""
    with ExitStack() as stack:
        yield lambda size_kb: stack.enter_context(small_disk(tmp_path / "disk", size_kb))


def assert_says_so(folder: Path) -> None:
    """Checks that the broker ends with status 1 and a sentence without an error number or a traceback."""
    command = [str(KLAMM), "serve", "--listen", "127.0.0.1:0", "--data-dir", str(folder)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ran.returncode, ran.stdout) == (1, ""), ran.stderr
    assert "Traceback" not in ran.stderr
    assert "Errno" not in ran.stderr.splitlines()[-1]
    assert ran.stderr.splitlines()[-1] == (
        f"klamm serve: no space is left on the disk of {folder}: make room there, or choose another folder "
        f"(--data-dir, log.dirs)"
    )


@pytest.mark.parametrize("size_kb", [4, 8, 16, 24])
def test_a_first_start_on_a_disk_that_is_too_small_says_so(mount: Callable[[int], Path], size_kb: int) -> None:
    """The first start on a too small disk fails with a clear error, at any file: the metadata store's schema, its first
    entries, or a file of the data directory."""
    assert_says_so(mount(size_kb) / "data")


def test_a_start_on_a_disk_that_is_full_by_now_says_so(mount: Callable[[int], Path], tmp_path: Path) -> None:
    """A start on a full disk fails with a clear error, after a clean stop and after a kill. With room again, the broker
    starts and the topic exists."""
    disk = mount(2000)
    broker = BrokerProcess(tmp_path, {"offsets.topic.num.partitions": "1"}, data_directory=disk / "data")
    with Wire(broker.bootstrap_servers) as wire:
        topic = CreatableTopic(name="events", num_partitions=1, replication_factor=1)
        answer = wire.call(CreateTopicsResponse, 7, CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        assert not answer.topics[0].error_code
    for end in (broker.stop, broker.kill):
        end()
        filler = disk / "filler"
        fill(filler)
        assert_says_so(disk / "data")
        filler.unlink()
        broker.start()
    with Wire(broker.bootstrap_servers) as wire:
        answer = wire.call(CreateTopicsResponse, 7, CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        assert answer.topics[0].error_message == "Topic 'events' already exists."
    broker.stop()
