"""Runs all clients of a run, from their start to the last reads, after which every record has been read."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random

from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.checker.history import ISOLATIONS, LAST, Fetch, Fetched, Problem, Recorder, read_history
from tests.checker.interruption import Interruption
from tests.checker.workload.consumers import PollingConsumer, committed_offsets
from tests.checker.workload.klamm_readers import KlammConsumer
from tests.checker.workload.roles import (
    COPIES,
    JAVA_CLIENTS,
    OWN_CLIENTS,
    PARTITIONS,
    RECORDS,
    Cast,
    named,
    partitions_of,
)
from tests.checker.workload.worker import PATIENCE_S, Setting
from tests.interop.java_client import driver_command
from tests.support.group_coordinator import ask_coordinator
from tests.support.patience import Limit, slowness

__all__ = ["Workload"]

_ROOT = Path(__file__).parents[3]


class Workload:
    """The clients of a run. `start` starts them, `finish` completes the history, and `close` kills the rest.

    `start` and `finish` raise Interrupted after a signal.
    """

    def __init__(
        self,
        folder: Path,
        history: Path,
        recorder: Recorder,
        interruption: Interruption,
        bootstrap_servers: str,
        *,
        seed: int,
        cast: Cast,
        replication_factor: int = 1,
    ) -> None:
        self._history = history
        self._recorder = recorder
        self._interruption = interruption
        self._cast = cast
        self._replication_factor = replication_factor
        self.slowness = slowness()
        """The machine's slowness as a multiple of an idle machine's time, by which clients' time limits are
        multiplied."""
        self._setting = Setting(recorder, bootstrap_servers, seed, slowness=self.slowness)
        self._numbers = itertools.count(1)
        self._log = (folder / "clients.log").open("w", encoding="utf-8")
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.crashes = 0
        """Number of clients that crashed or hung."""

    def start(self) -> None:
        """Creates the topics, and returns when all clients have recorded an event."""
        admin = AdminClient(self._setting.client_config())
        topics = [NewTopic(name, count, self._replication_factor) for name, count in PARTITIONS.items()]
        for future in admin.create_topics(topics).values():
            future.result(self._setting.stretched(PATIENCE_S))
        for name in (*self._cast.producers, *self._cast.readers):
            self._start(name)
        self._wait_until_all_work()

    def _wait_until_all_work(self) -> None:
        """Waits until every client has recorded an event. Raises RuntimeError if one makes no progress.

        On a busy machine some processes need long to start.
        """
        limit = Limit(2 * PATIENCE_S)
        missing = {*self._cast.producers, *self._cast.readers}
        while missing:
            at_work = {entry.event.process.partition(".")[0] for entry in read_history(self._history)}
            if missing & at_work:
                limit.progressed()
            missing -= at_work
            if missing and limit.is_over:
                raise RuntimeError(f"{', '.join(sorted(missing))} did nothing at all: see {self._log.name}")
            self.watch()
            time.sleep(0.2)

    def _start(self, name: str) -> None:
        number, seed = str(next(self._numbers)), str(self._setting.seed)
        history, bootstrap_servers = str(self._history.resolve()), self._setting.bootstrap_servers
        if name in JAVA_CLIENTS:
            assert self._cast.java_classpath is not None
            arguments = (history, bootstrap_servers, seed, number, name, str(PARTITIONS[RECORDS]))
            command = driver_command(self._cast.java_classpath, "CheckedClients", *arguments)
        else:
            command = [sys.executable, "-m", "tests.checker.workload.client", history]
            command += [bootstrap_servers, seed, number, str(self.slowness), name]
        self._processes[name] = subprocess.Popen(command, cwd=_ROOT, stderr=self._log)

    def kill_client(self, random: Random) -> None:
        """Kills a random client with kill -9 and starts another one in its place."""
        name = random.choice(list(self._processes))
        self._processes[name].kill()
        self._processes[name].wait()
        self._recorder.record(Problem(name, "killed"))
        self._start(name)

    def watch(self) -> None:
        """Restarts clients that crashed, because client libraries have bugs too.

        Raises RuntimeError if a client failed with an error of its own, which makes the run useless, and Interrupted
        after a signal.
        """
        self._interruption.look()
        for name, process in self._processes.items():
            status = process.poll()
            if status is not None and status < 0:
                self._note_crash(name, status)
                self._start(name)
            elif status is not None:
                self._log.flush()
                raise RuntimeError(f"{name} has ended with status {status}: see {self._log.name}")

    def _note_crash(self, name: str, status: int) -> None:
        what = f"ended by {signal.Signals(-status).name}"
        if name in OWN_CLIENTS:
            self._log.flush()
            raise RuntimeError(f"{name}, which is klamm's own client, {what}: see {self._log.name}")
        self.crashes += 1
        self._recorder.record(Problem(name, what))

    def finish(self) -> None:
        """Stops the producers, waits until groups reach the end of the log, and reads all records once more.

        No fault is injected meanwhile. A client that does not finish in time stays visible in the history for the
        checks.
        """
        self._stop(self._cast.producers)
        ends = self._read_all(RECORDS)
        self._wait_for_groups(ends)
        self._stop(self._cast.readers)
        self._read_all(COPIES)
        for group in self._cast.groups:
            operation = self._setting.next_operation()
            self._recorder.record(Fetch("last-fetch", operation, group))
            found = self._committed(group, sorted(ends))
            self._recorder.record(Fetched("last-fetch", operation, tuple(found.items())))

    def close(self) -> None:
        """Kills the clients that still run."""
        for process in self._processes.values():
            process.kill()
            process.wait()
        self._processes.clear()
        self._log.close()

    def _stop(self, names: Iterable[str]) -> None:
        stopping = {name: self._processes.pop(name) for name in names}
        for process in stopping.values():
            process.terminate()
        for name, process in stopping.items():
            try:
                status = process.wait(self._setting.stretched(2 * PATIENCE_S))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                self._recorder.record(Problem(name, "did not end"))
                continue
            if status > 0:
                raise RuntimeError(f"{name} has ended with status {status}: see {self._log.name}")
            if status < 0:
                self._note_crash(name, status)

    def _read_all(self, topic: str) -> dict[str, int]:
        """Reads the topic at both isolation levels. Returns, by partition, the offset after the last committed
        record."""
        partitions = partitions_of(topic)
        ends: dict[str, int] = {}
        after_last: dict[str, int] = {}
        for isolation in ISOLATIONS:
            consumer = PollingConsumer(self._setting, f"{LAST}{isolation}-{topic}", isolation, {})
            consumer.assign(dict.fromkeys(partitions, 0))
            after_last = {}
            limit = Limit(2 * PATIENCE_S)
            # The last stable offset reaches the end of the log when the markers of all transactions are written.
            while len(consumer.ends) < len(partitions) or any(consumer.ends[each] < ends[each] for each in ends):
                before = dict(consumer.ends)
                self._interruption.look()
                polled = consumer.turn()
                for partition, offset, _ in polled:
                    after_last[partition] = offset + 1
                if polled or consumer.ends != before:
                    limit.progressed()
                elif limit.is_over:
                    self._recorder.record(Problem(consumer.process, f"got to {consumer.ends}, not to {ends}"))
                    break
            ends = dict(consumer.ends)
            consumer.close()
        self._read_all_with_own_client(topic, ends)
        return after_last

    def _read_all_with_own_client(self, topic: str, ends: dict[str, int]) -> None:
        for isolation in ISOLATIONS:
            process = f"{LAST}klamm-{isolation}-{topic}"
            consumer = KlammConsumer(self._setting, process, isolation, random=Random(process))
            consumer.assign(dict.fromkeys(partitions_of(topic), 0))
            limit = Limit(2 * PATIENCE_S)
            while any(consumer.positions[each] < end for each, end in ends.items()):
                self._interruption.look()
                if consumer.turn():
                    limit.progressed()
                elif limit.is_over:
                    self._recorder.record(Problem(process, f"got to {consumer.positions}, not to {ends}"))
                    break
            consumer.close()

    def _committed(self, group: str, partitions: Sequence[str]) -> dict[str, int | None]:
        config = {"group.id": group, "isolation.level": "read_committed", "enable.auto.commit": False}
        client = Consumer(self._setting.client_config() | config)
        try:
            patience_s = self._setting.stretched(PATIENCE_S)
            return ask_coordinator(lambda: committed_offsets(client, named(partitions), patience_s))
        finally:
            client.close()

    def _wait_for_groups(self, ends: dict[str, int]) -> None:
        for group in self._cast.groups:
            limit = Limit(4 * PATIENCE_S)
            before: dict[str, int | None] = {}
            while any((found or 0) < ends.get(name, 0) for name, found in before.items()) or not before:
                committed = self._committed(group, sorted(ends))
                if committed != before:
                    limit.progressed()
                elif limit.is_over:
                    self._recorder.record(Problem(group, f"has not come to {ends}"))
                    return
                before = committed
                self.watch()
                time.sleep(0.2)
