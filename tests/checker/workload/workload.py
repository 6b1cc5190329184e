"""All clients of a run, from their start to the last reads, after which everything that is there has been seen."""

from __future__ import annotations

import time
from collections.abc import Sequence

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.checker.history import Fetch, Isolation, Problem
from tests.checker.workload.consumers import AssignedReader, GroupMember, PollingConsumer, committed_offsets
from tests.checker.workload.processors import Processor
from tests.checker.workload.producers import PlainProducer, TransactionalProducer
from tests.checker.workload.worker import PATIENCE_S, Setting, Worker

__all__ = ["Workload"]

RECORDS = "records"
COPIES = "copies"
PARTITIONS = {RECORDS: 4, COPIES: 2}
GROUPS = {"eager": "range", "cooperative": "cooperative-sticky", "consumer": "consumer"}
"""Groups that read, and what they assign with; "consumer" is the protocol of KIP-848."""
PROCESSORS = "processors"


def _partitions(*topics: str) -> list[str]:
    return [f"{topic}-{index}" for topic in topics for index in range(PARTITIONS[topic])]


def _named(partitions: Sequence[str]) -> list[TopicPartition]:
    split = (partition.rpartition("-") for partition in partitions)
    return [TopicPartition(topic, int(index)) for topic, _, index in split]


class Workload:
    """Begins with `start`; after `finish` the history is whole."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        records, copies, both = _partitions(RECORDS), _partitions(COPIES), _partitions(RECORDS, COPIES)
        self._producers: list[Worker] = [
            PlainProducer(setting, "patient", records, 120_000),
            PlainProducer(setting, "impatient", records, 2_500),
            *(TransactionalProducer(setting, f"transactional-{number}", records) for number in (1, 2)),
        ]
        self._processors = [Processor(setting, f"processor-{number}", PROCESSORS, RECORDS, copies) for number in (1, 2)]
        self._members = [
            GroupMember(setting, f"{group}-{number}", group, [RECORDS], protocol)
            for group, protocol in GROUPS.items()
            for number in (1, 2)
        ]
        isolations: tuple[Isolation, ...] = ("read_committed", "read_uncommitted")
        self._readers = [AssignedReader(setting, f"{each}-reader", both, each) for each in isolations]

    @property
    def workers(self) -> list[Worker]:
        """All of them."""
        return [*self._producers, *self._processors, *self._members, *self._readers]

    def start(self) -> None:
        """Makes the topics and begins."""
        admin = AdminClient(self._setting.client_config())
        topics = [NewTopic(name, count, 1) for name, count in PARTITIONS.items()]
        for future in admin.create_topics(topics).values():
            future.result(PATIENCE_S)
        for worker in self.workers:
            worker.start()

    def check_workers(self) -> None:
        """Raises what a worker has ended with: then the run says nothing."""
        for worker in self.workers:
            if worker.failure is not None:
                raise worker.failure

    def finish(self) -> None:
        """Producers end, groups come to the end of what there is, and all of it is read once more.

        Nothing is done to the broker meanwhile. What isn't finished in time is in the history, for the checks to find.
        """
        self._stop(self._producers)
        ends = self._read_all("records", _partitions(RECORDS))
        self._wait_for_groups(ends)
        self._stop([*self._processors, *self._members, *self._readers])
        self._read_all("copies", _partitions(COPIES))
        for group in (*GROUPS, PROCESSORS):
            self._fetch(group, ends)

    def _stop(self, workers: Sequence[Worker]) -> None:
        for worker in workers:
            worker.stop()
        for worker in workers:
            worker.join(5 * PATIENCE_S)
            if worker.is_alive():
                self._setting.recorder.record(Problem(worker.process, "does not end"))
        self.check_workers()

    def _read_all(self, name: str, partitions: Sequence[str]) -> dict[str, int]:
        """Returns, by partition, the offset after the last record that is committed."""
        ends: dict[str, int] = {}
        after_last: dict[str, int] = {}
        deadline = time.monotonic() + PATIENCE_S
        for isolation in ("read_uncommitted", "read_committed"):
            consumer = PollingConsumer(self._setting, f"last-{isolation}-{name}", isolation, {})
            consumer.assign(dict.fromkeys(partitions, 0))
            after_last = {}
            # The last stable offset comes to the end of the log when the markers of all transactions are written.
            while len(consumer.ends) < len(partitions) or any(consumer.ends[each] < ends[each] for each in ends):
                if time.monotonic() > deadline:
                    self._setting.recorder.record(Problem(consumer.process, f"got to {consumer.ends}, not to {ends}"))
                    break
                for partition, offset, _ in consumer.turn():
                    after_last[partition] = offset + 1
            ends = dict(consumer.ends)
            consumer.close()
        return after_last

    def _committed(self, group: str, partitions: Sequence[str]) -> dict[str, int | None]:
        config = {"group.id": group, "isolation.level": "read_committed", "enable.auto.commit": False}
        client = Consumer(self._setting.client_config() | config)
        try:
            return committed_offsets(client, _named(partitions))
        finally:
            client.close()

    def _wait_for_groups(self, ends: dict[str, int]) -> None:
        deadline = time.monotonic() + 2 * PATIENCE_S
        for group in (*GROUPS, PROCESSORS):
            while any((self._committed(group, [name])[name] or 0) < end for name, end in ends.items()):
                if time.monotonic() > deadline:
                    self._setting.recorder.record(Problem(group, f"has not come to {ends}"))
                    return
                self.check_workers()
                time.sleep(0.2)

    def _fetch(self, group: str, ends: dict[str, int]) -> None:
        asked = self._setting.recorder.count - 1
        found = self._committed(group, sorted(ends))
        self._setting.recorder.record(Fetch("last-fetch", group, asked, tuple(found.items())))
