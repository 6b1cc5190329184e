"""librdkafka's mock cluster in its own process: the result that a broker without storage would reach."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import confluent_kafka

from bench.load_programs import LoadPrograms
from bench.peers.base import Peer, RunningPeer

__all__ = ["LibrdkafkaMock"]


class _RunningMock(RunningPeer):
    """A running mock. It has no CreateTopics, so topics are created over its standard input; it can't delete topics."""

    def create_topic(self, name: str, partitions: int) -> None:
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{name} {partitions}\n")
        stdin.flush()
        stdout.readline()

    def delete_topic(self, name: str) -> None:
        pass

    def stop(self) -> None:
        super().stop()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


class LibrdkafkaMock(Peer):
    """A broker that answers from memory, keeps 5 MB per partition, and ignores broker configurations."""

    def __init__(self, programs: LoadPrograms) -> None:
        self._program = programs.folder / "mock_cluster"
        self.name = f"librdkafka mock {confluent_kafka.libversion()[0]}"

    def start(self, folder: Path, config: Mapping[str, str]) -> RunningPeer:
        spawned_at = time.monotonic()
        process = subprocess.Popen([self._program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        return _RunningMock(process, int(address.rpartition(":")[2]), spawned_at)
