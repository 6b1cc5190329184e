"""Kills workers while they handle records, and checks what all of them did: I24 and I25 with real processes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.group_coordinator import committed_by_group

from klamm.core.delivery.commit_text import decode_note
from klamm.protocol.types import Offset

__all__ = ["WorkerGroup", "produce_records"]

_PARTITIONS: Final = 6
_KEYS: Final = 100
_PROGRESS_SECONDS: Final = 90


def produce_records(bootstrap: str, count: int) -> None:
    """Creates the topic `records`, and writes records with many keys, one of which has a share of five per cent."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("records", _PARTITIONS, 1)])["records"].result(30)
    # A batch that is sent again must not be in the topic twice: the check knows how many records there are.
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "enable.idempotence": True})
    for number in range(count):
        key = b"hot" if number % 20 == 0 else b"key-%d" % (number % _KEYS)
        producer.produce("records", b"value", key)
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0


class _Covered(NamedTuple):
    """What the group had committed at a moment."""

    at: float
    partition: int
    position: int
    finished: tuple[tuple[Offset, Offset], ...]

    def has(self, offset: int) -> bool:
        """Returns whether the record is finished by the commit."""
        return offset < self.position or any(first <= offset < end for first, end in self.finished)


class WorkerGroup:
    """Worker processes of one group."""

    def __init__(self, bootstrap: str, folder: Path, options: Mapping[str, Any]) -> None:
        self._bootstrap = bootstrap
        self._folder = folder
        self._options = {"bootstrap": bootstrap, "group": "workers", **options}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._files: list[Path] = []
        self._covered: list[_Covered] = []
        self.kills = 0

    def start(self, member: int) -> None:
        """Starts a process."""
        events = self._folder / f"events-{len(self._files)}.txt"
        self._files.append(events)
        options = {**self._options, "events": str(events)}
        if self._options.get("is_static"):
            options["instance"] = f"worker-{member}"
        with (self._folder / f"log-{member}.txt").open("ab") as log:
            self._processes[member] = subprocess.Popen(
                [sys.executable, "-m", "tests.support.worker_process", json.dumps(options)], stdout=log, stderr=log
            )

    def kill(self, member: int) -> None:
        """Kills a process with SIGKILL, and notes what the group has committed."""
        process = self._processes.pop(member)
        process.kill()
        process.wait()
        self.kills += 1
        self._note_commits()

    def _note_commits(self) -> None:
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": self._options["group"]})
        try:
            wanted = [TopicPartition("records", partition) for partition in range(_PARTITIONS)]
            for each in committed_by_group(consumer, wanted):
                if each.offset >= 0:
                    note = decode_note(Offset(each.offset), each.metadata)
                    self._covered.append(_Covered(time.monotonic(), each.partition, each.offset, note.finished))
        finally:
            consumer.close()

    def is_done(self) -> bool:
        """Returns whether everything is committed."""
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": self._options["group"]})
        try:
            wanted = [TopicPartition("records", partition) for partition in range(_PARTITIONS)]
            return all(
                each.offset == consumer.get_watermark_offsets(each, timeout=30)[1]
                for each in committed_by_group(consumer, wanted)
            )
        finally:
            consumer.close()

    def run(self, members: int, kills: int, seed: int) -> None:
        """Runs workers, kills some, and waits until all records are committed."""
        random = Random(seed)
        for member in range(members):
            self.start(member)
        try:
            for _ in range(kills):
                self._wait_for_work()
                time.sleep(random.uniform(0.1, 1.5))
                member = random.randrange(members)
                self.kill(member)
                self.start(member)
            before, ends = 0, 0.0
            while not self.is_done():
                if (now := self._written_bytes()) != before:
                    before, ends = now, time.monotonic() + _PROGRESS_SECONDS
                assert time.monotonic() < ends, f"not all records are committed: {self._folder}"
                time.sleep(0.5)
            for process in self._processes.values():
                process.terminate()
            for process in self._processes.values():
                assert process.wait(60) == 0, f"a worker ended with an error: {self._folder}"
        finally:
            for process in self._processes.values():
                process.kill()

    def _wait_for_work(self) -> None:
        """Waits until some process handles records that no process has handled at the beginning of the wait."""
        ends = time.monotonic() + _PROGRESS_SECONDS
        before = self._written_bytes()
        while self._written_bytes() < before + 10_000 and not self.is_done():
            assert time.monotonic() < ends, f"no worker goes on: {self._folder}"
            time.sleep(0.1)

    def _written_bytes(self) -> int:
        return sum(path.stat().st_size for path in self._files if path.exists())

    def check(self, count: int) -> int:
        """Checks what all processes did, and returns how many records were handled more than once."""
        handled: dict[tuple[str, str], int] = {}
        for path in self._files:
            self._check_process(path, handled)
        assert len(handled) == count, f"{len(handled)} of {count} records were handled"
        return sum(times > 1 for times in handled.values())

    def _check_process(self, path: Path, handled: dict[tuple[str, str], int]) -> None:
        if not path.exists():
            return
        running: dict[tuple[str, str], int] = {}
        last: dict[tuple[str, str], int] = {}
        covered = {
            partition: [each for each in self._covered if each.partition == partition]
            for partition in range(_PARTITIONS)
        }
        for line in path.read_text().splitlines():
            moment, what, *words = line.split()
            if what == "got":
                for name in words:
                    partition = name.strip(",").rpartition("-")[2]
                    last = {lane: offset for lane, offset in last.items() if lane[0] != partition}
                    running = {lane: offset for lane, offset in running.items() if lane[0] != partition}
                continue
            if len(words) < 3:
                continue  # the process was killed while it wrote the line
            partition, offset, key = words[0], int(words[1]), words[2]
            lane = (partition, key)
            if what == "begin":
                assert lane not in running, f"{path}: {line}: {running[lane]} of the key runs"
                assert offset >= last.get(lane, -1), f"{path}: {line}: {last[lane]} of the key ran before"
                running[lane] = last[lane] = offset
                for each in covered[int(partition)]:
                    assert not (each.at < float(moment) and each.has(offset)), f"{path}: {line}: committed in {each}"
            elif running.pop(lane, None) is not None and what == "end":
                handled[partition, words[1]] = handled.get((partition, words[1]), 0) + 1
