"""Runs a group whose members come and go while its topic is written to, and checks the group at the end."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, count
from struct import Struct
from types import TracebackType
from typing import Final, Self

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.cimpl import NewPartitions, NewTopic
from tests.interop.client_process import ClientProcess, Member
from tests.interop.owner_watch import OwnerWatch

from klamm.core.coordinator.java_hash import partition_for

__all__ = ["Life", "Steady", "Writing"]

PATIENCE_SECONDS: Final = 60
BETWEEN_RECORDS_SECONDS: Final = 0.01
STALL_SECONDS: Final = 1
ENOUGH_RECORDS: Final = 50
"""A member of which so many records were written must have read one of them, also on a busy machine."""
_OFFSETS_TOPIC: Final = "__consumer_offsets"
_KEY_HEAD: Final = Struct(">hh")


class Writing:
    """Writes small records to all partitions of a topic in turn until it is stopped: `with Writing(...) as writing`.

    `written` contains partition and offset of every acknowledged record.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.written: set[tuple[int, int]] = set()
        self.errors: list[KafkaError] = []
        self._topic = topic
        self._partitions = partitions
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": "0", "log_level": 2})
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stops writing, and checks that the broker has acknowledged every record."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()
        assert self._producer.flush(PATIENCE_SECONDS) == 0
        assert not self.errors, self.errors

    def grow(self, partitions: int) -> None:
        """Waits until the producer knows this number of partitions, then writes to all of them."""
        while len(self._producer.list_topics(self._topic, 30).topics[self._topic].partitions) < partitions:
            time.sleep(0.01)
        self._partitions = partitions

    def _write(self) -> None:
        for number in count():
            if self._stopped.wait(BETWEEN_RECORDS_SECONDS):
                return
            partition = number % self._partitions
            self._producer.produce(self._topic, partition=partition, value=f"{number}", on_delivery=self._on_delivery)
            self._producer.poll(0)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error)
        else:
            self.written.add((message.partition() or 0, message.offset() or 0))


class Life:
    """A group on a topic that is written to, with all members that the group ever had."""

    def __init__(
        self, start_client: Callable[[], ClientProcess], bootstrap: str, partitions: int, settings: dict[str, str]
    ) -> None:
        self.bootstrap = bootstrap
        self.topic = f"churn-{uuid.uuid4().hex[:12]}"
        self.group = f"group-{uuid.uuid4().hex[:12]}"
        self.partitions = partitions
        self.processes: dict[str, ClientProcess] = {}
        self._all: list[Member] = []
        self._start_client = start_client
        self._settings = settings
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._admin.create_topics([NewTopic(self.topic, partitions, 1)])[self.topic].result(30)
        self.writing = Writing(bootstrap, self.topic, partitions)
        self.watch = OwnerWatch(bootstrap, self.group)

    def start(self, *names: str) -> list[Member]:
        """Starts members at the same time, each in its own process."""
        processes = {name: self._start_client() for name in names}
        self.processes |= processes
        started = [each.join(name, self.group, self.topic, **self._settings) for name, each in processes.items()]
        self._all += started
        return started

    def stop(self, *members: Member) -> None:
        """Makes members leave at the same time, and ends their processes."""

        def stop(member: Member) -> None:
            member.leave()
            self.processes.pop(member.name).close()

        with ThreadPoolExecutor(len(members)) as pool:
            list(pool.map(stop, members))

    def stall(self, name: str) -> None:
        """Makes a member pause its polls for one second, so that it delays a rebalance; the member stays in the
        group."""
        self.processes[name].call("stall", name=name, seconds=STALL_SECONDS)

    def grow(self, partitions: int) -> None:
        """Adds partitions to the topic; the writer uses them from now on."""
        self._admin.create_partitions([NewPartitions(self.topic, partitions)])[self.topic].result(30)
        self.writing.grow(partitions)
        self.partitions = partitions

    def wait_until_shared_by(self, members: list[Member]) -> None:
        """Waits until these members own all partitions; their numbers of partitions differ by one at most."""

        def is_shared() -> bool:
            owned = [member.assignment or [] for member in members]
            sizes = [len(each) for each in owned]
            return sorted(chain.from_iterable(owned)) == list(range(self.partitions)) and max(sizes) - min(sizes) <= 1

        self.until(is_shared, lambda: f"not shared: { {member.name: member.assignment for member in members} }")

    def check_that_nothing_was_lost(self, members: list[Member]) -> None:
        """Stops the writer and the members. Checks that members read every record, that the committed offsets equal the
        log end offsets, and that no partition ever had two owners.

        A new member joins before the others leave. If they commit old offsets when they leave, the new member reads
        from these offsets again. librdkafka 2.16 commits old offsets now and then, to Apache Kafka as well as to klamm.
        A broker can't refuse such a commit: its member id and generation are current. The cause: a consumer loses a
        partition while it looks up the partition's first offset. The late response starts the lookup again, and then
        fetches (`rd_kafka_toppar_handle_Offset` in librdkafka's rdkafka_partition.c). When the consumer gets the
        partition back, these old records count as consumed. The new member never looks up a first offset, because all
        partitions have committed offsets when it joins.
        """
        written = self.writing.written
        everywhere = set(range(self.partitions))
        # A copy: the writer's thread adds to the set until `stop`.
        self.until(
            lambda: {partition for partition, _ in written.copy()} == everywhere, lambda: "not all is written to"
        )
        self.writing.stop()
        self.until(
            lambda: written <= {place for member in self._all for place in member.places},
            lambda: f"never read: {sorted(written - {place for member in self._all for place in member.places})[:20]}",
        )
        self._commit_all(members)
        (last,) = self.start("last")
        self.stop(*members)
        self.wait_until_shared_by([last])
        self._commit_all([last])
        self.stop(last)
        assert self._committed() == self._ends(), self._commits()
        assert self.watch.looks, "the watch has seen no group"
        assert not self.watch.overlaps, self.watch.overlaps[:5]

    def _commit_all(self, members: list[Member]) -> None:
        """Waits until the members have committed the log end offsets of all partitions."""

        def are_committed() -> bool:
            for member in members:
                member.commit()
            return self._committed() == self._ends()

        self.until(are_committed, lambda: f"committed {self._committed()}, the log ends at {self._ends()}")

    def _committed(self) -> dict[int, int]:
        answer = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(self.group)])[self.group]
        return {each.partition: each.offset for each in answer.result(30).topic_partitions or []}

    def _commits(self) -> str:
        """Returns the last commits in the log of offsets: the time, and the offset of each partition."""
        reader = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "none", "enable.partition.eof": True})
        count = len(reader.list_topics(_OFFSETS_TOPIC, 30).topics[_OFFSETS_TOPIC].partitions)
        reader.assign([TopicPartition(_OFFSETS_TOPIC, partition_for(self.group, count), 0)])
        found: dict[int, list[str]] = {}
        while (message := reader.poll(PATIENCE_SECONDS)) is not None and message.error() is None:
            key = message.key() or b""
            if key.startswith(_KEY_HEAD.pack(1, len(self.group)) + self.group.encode()):
                partition = int.from_bytes(key[-4:], "big")
                value = message.value()
                offset = "deleted" if value is None else int.from_bytes(value[2:10], "big", signed=True)
                found.setdefault(partition, []).append(f"{message.timestamp()[1]}: {offset}")
        reader.close()
        return "\n".join(f"commits of partition {each}: {found[each][-6:]}" for each in sorted(found))

    def _ends(self) -> dict[int, int]:
        wanted = {TopicPartition(self.topic, index): OffsetSpec.latest() for index in range(self.partitions)}
        return {place.partition: future.result(30).offset for place, future in self._admin.list_offsets(wanted).items()}

    @staticmethod
    def until(condition: Callable[[], bool], otherwise: Callable[[], str]) -> None:
        """Waits until the condition holds. Raises AssertionError with the text of `otherwise` after a minute."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < deadline, otherwise()
            time.sleep(0.05)


class Steady:
    """Members that a change must not affect, with their state from before the change."""

    def __init__(self, members: list[Member], writing: Writing) -> None:
        self._before = {member: (len(member.events), set(member.assignment or [])) for member in members}
        self._writing = writing
        self._written = set(writing.written)

    def check_that_they_kept_what_they_keep(self) -> None:
        """Checks that no member lost a partition that it owned before the change and still owns."""
        for member, (since, owned) in self._before.items():
            kept = owned & set(member.assignment or [])
            for event in member.events[since:]:
                if event["event"] in ("revoked", "lost"):
                    assert not kept & set(event["partitions"]), f"{member.name} keeps {sorted(kept)}, but {event}"

    def check_that_they_read_on(self) -> None:
        """Checks that each member read records from its kept partitions during the change, if it took long enough."""
        written = self._writing.written - self._written
        for member, (since, owned) in self._before.items():
            kept = owned & set(member.assignment or [])
            if sum(partition in kept for partition, _ in written) < ENOUGH_RECORDS:
                continue
            events = member.events[since:]
            assert any(event["event"] == "record" and event["partition"] in kept for event in events), (
                f"{member.name} keeps {sorted(kept)} and read nothing in {len(events)} events"
            )
