"""The clients of a run, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from confluent_kafka import TopicPartition
from tests.checker.workload.consumers import AssignedReader, EndReader, GroupMember
from tests.checker.workload.klamm_readers import KlammGroupMember, KlammReader
from tests.checker.workload.processors import Processor
from tests.checker.workload.producers import PlainProducer, TransactionalProducer
from tests.checker.workload.worker import Setting, Worker

__all__ = ["JAVA_CLIENTS", "OWN_CLIENTS", "PARTITIONS", "PRODUCERS", "READERS", "Cast", "named", "partitions_of"]

Role: TypeAlias = Callable[[Setting, str], Worker]

RECORDS = "records"
COPIES = "copies"
PARTITIONS = {RECORDS: 4, COPIES: 2}

_ASSIGNORS = {"eager": "range", "cooperative": "cooperative-sticky", "consumer": "consumer"}
"""Reading groups and their assignors; "consumer" is the protocol of KIP-848."""
_PROCESSORS = "processors"
_KLAMM = "klamm"
GROUPS = (*_ASSIGNORS, _PROCESSORS, _KLAMM)


def partitions_of(*topics: str) -> list[str]:
    """Returns the names of the topics' partitions."""
    return [f"{topic}-{index}" for topic in topics for index in range(PARTITIONS[topic])]


def named(partitions: Sequence[str]) -> list[TopicPartition]:
    """Returns the partitions as the client's TopicPartition objects."""
    split = (partition.rpartition("-") for partition in partitions)
    return [TopicPartition(topic, int(index)) for topic, _, index in split]


_records, _copies, _both = partitions_of(RECORDS), partitions_of(COPIES), partitions_of(RECORDS, COPIES)

PRODUCERS: dict[str, Role] = {
    "patient": partial(PlainProducer, partitions=_records, timeout_ms=120_000),
    "impatient": partial(PlainProducer, partitions=_records, timeout_ms=2_500),
    "transactional-1": partial(TransactionalProducer, partitions=_records),
    "transactional-2": partial(TransactionalProducer, partitions=_records),
}
_MEMBERS: dict[str, Role] = {
    f"{group}-{number}": partial(GroupMember, group=group, topics=[RECORDS], protocol=protocol)
    for group, protocol in _ASSIGNORS.items()
    for number in (1, 2)
}
READERS: dict[str, Role] = _MEMBERS | {
    "processor-1": partial(Processor, group=_PROCESSORS, topic=RECORDS, targets=_copies),
    "processor-2": partial(Processor, group=_PROCESSORS, topic=RECORDS, targets=_copies),
    "read-committed": partial(AssignedReader, partitions=_both, isolation="read_committed"),
    "read-uncommitted": partial(AssignedReader, partitions=_both, isolation="read_uncommitted"),
    "end-reader": partial(EndReader, partitions=_both),
    "klamm-committed": partial(KlammReader, partitions=_both, isolation="read_committed"),
    "klamm-uncommitted": partial(KlammReader, partitions=_both, isolation="read_uncommitted"),
    "klamm-member-1": partial(KlammGroupMember, group=_KLAMM, partitions=_records),
    "klamm-member-2": partial(KlammGroupMember, group=_KLAMM, partitions=_records),
}
"""The clients that run until all records have been read."""
OWN_CLIENTS = frozenset(name for name in READERS if name.startswith("klamm-"))
"""The readers that use klamm's own client. A crash or a hang of one of them fails the run."""

_JAVA_PRODUCERS = "java-producers"
_JAVA_READERS = "java-members"
JAVA_CLIENTS = frozenset((_JAVA_PRODUCERS, _JAVA_READERS))
"""Apache Kafka's Java clients, one process each (`tests/interop/java/CheckedClients.java`)."""
_JAVA_GROUPS = ("java-classic", "java-consumer")


@dataclass(frozen=True, slots=True)
class Cast:
    """The clients of a run, and the groups whose members are among them.

    `java_classpath` is the result of `compile_client`, None without Java clients.
    """

    producers: tuple[str, ...]
    readers: tuple[str, ...]
    groups: tuple[str, ...]
    java_classpath: str | None = None

    @classmethod
    def whole(cls, java_classpath: str | None = None) -> Cast:
        """Returns all clients."""
        return cls(tuple(PRODUCERS), tuple(READERS), GROUPS)._with_java(java_classpath)

    @classmethod
    def small(cls, java_classpath: str | None = None) -> Cast:
        """Returns one client of each kind. A short run on a busy machine mostly starts clients."""
        producers = ("patient", "transactional-1")
        members = tuple(name for name in _MEMBERS if name.endswith("-1"))
        others = ("processor-1", "read-committed", "end-reader", "klamm-uncommitted", "klamm-member-1")
        return cls(producers, (*members, *others), GROUPS)._with_java(java_classpath)

    def _with_java(self, classpath: str | None) -> Cast:
        if classpath is None:
            return self
        return Cast(
            (*self.producers, _JAVA_PRODUCERS),
            (*self.readers, _JAVA_READERS),
            (*self.groups, *_JAVA_GROUPS),
            classpath,
        )
