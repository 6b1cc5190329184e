"""Consumers: readers that assign partitions to themselves, and members of groups."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from tests.checker.history import Assign, Commit, Committed, EndOffset, Isolation, Poll, Problem, Revoke
from tests.checker.workload.sending import value_of
from tests.checker.workload.worker import Setting, Worker, code_of

__all__ = ["AssignedReader", "EndReader", "GroupMember", "PollingConsumer", "committed_offsets", "partition_name"]

_TURN_S = 0.05
_RECORDS = 200
_END_TIMEOUT_S = 5
_LEAST = 0.004
"""Probability, per turn, that a member leaves its group or that an assigned reader goes to another position."""


def partition_name(named: TopicPartition) -> str:
    """Returns the name as in `topic-0`."""
    return f"{named.topic}-{named.partition}"


def committed_offsets(
    client: Consumer, partitions: Sequence[TopicPartition], timeout_s: float
) -> dict[str, int | None]:
    """Returns the committed offsets of the client's group; None for no commit. Raises KafkaException."""
    found: dict[str, int | None] = {}
    for each in client.committed(list(partitions), timeout_s):
        if each.error is not None:
            raise KafkaException(each.error)
        found[partition_name(each)] = each.offset if each.offset >= 0 else None
    return found


class PollingConsumer:
    """A consumer that records its assignments and the records it receives, in order.

    It polls one record at a time, and writes the gathered records to the history before it writes an assignment.
    """

    def __init__(
        self, setting: Setting, process: str, isolation: Isolation, config: dict[str, str | int | bool]
    ) -> None:
        self.process = process
        self.group: str | None = None
        self._recorder = setting.recorder
        self._isolation = isolation
        self._gathered: dict[str, list[tuple[int, int]]] = {}
        self.ends: dict[str, int] = {}
        """By partition: the end offset when the consumer last reached the end."""
        self.positions: dict[str, int] = {}
        """By partition: the next offset, if the consumer received a record since the assignment."""
        self.client = Consumer(
            setting.client_config()
            | {
                "group.id": process,
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 50,
                "fetch.error.backoff.ms": 50,
            }
            | config
        )

    def assign(self, positions: dict[str, int]) -> None:
        """Reads these partitions from these offsets."""
        named = []
        for partition, offset in positions.items():
            topic, _, index = partition.rpartition("-")
            named.append(TopicPartition(topic, int(index), offset))
        self.flush()
        self.ends.clear()
        self.positions = dict(positions)
        self._recorder.record(Assign(self.process, tuple(positions.items())))
        self.client.assign(named)

    def subscribe(self, group: str, topics: Sequence[str]) -> None:
        """Becomes a member of the group."""
        self.group = group
        self.client.subscribe(list(topics), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)

    def turn(self, most: int = _RECORDS) -> list[tuple[str, int, int]]:
        """Polls for a moment and returns (partition, offset, value) of each record.

        Raises KafkaException for an error after which the consumer cannot be used.
        """
        polled: list[tuple[str, int, int]] = []
        while len(polled) < most:
            message = self.client.poll(_TURN_S if not polled else 0)
            if message is None:
                break
            topic, index, offset = message.topic(), message.partition(), message.offset()
            partition = f"{topic}-{index}"
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    assert offset is not None
                    self.ends[partition] = offset
                    continue
                self._recorder.record(Problem(self.process, error.str()))
                if error.fatal() or error.code() == KafkaError._AUTO_OFFSET_RESET:
                    self.flush()
                    raise KafkaException(error)
                continue
            value = message.value()
            assert value is not None
            assert offset is not None
            number = value_of(value)
            self._gathered.setdefault(partition, []).append((offset, number))
            self.positions[partition] = offset + 1
            polled.append((partition, offset, number))
        self.flush()
        return polled

    def flush(self) -> None:
        """Writes the gathered records to the history."""
        if self._gathered:
            batches = tuple(
                (partition, tuple(offset for offset, _ in records), tuple(value for _, value in records))
                for partition, records in self._gathered.items()
            )
            self._gathered.clear()
            self._recorder.record(Poll(self.process, self._isolation, batches, self.group))

    def close(self) -> None:
        """Leaves the group and closes the client."""
        self.flush()
        self.client.close()

    def _assigned(self, client: Consumer, named: list[TopicPartition]) -> None:
        self.flush()
        names = [partition_name(each) for each in named]
        for partition in names:
            self.positions.pop(partition, None)
        self._recorder.record(Assign(self.process, tuple((name, None) for name in names), self.group))

    def _revoked(self, client: Consumer, named: list[TopicPartition]) -> None:
        self.flush()
        names = [partition_name(each) for each in named]
        for partition in names:
            self.positions.pop(partition, None)
        self._recorder.record(Revoke(self.process, tuple(names)))


class AssignedReader(Worker):
    """A reader that follows the end of all partitions, and sometimes goes back some records."""

    def __init__(self, setting: Setting, name: str, partitions: Sequence[str], isolation: Isolation) -> None:
        super().__init__(setting, name)
        self._partitions = partitions
        self._isolation = isolation
        self._consumer: PollingConsumer | None = None

    def renew(self) -> None:
        """Starts a new consumer at the positions of the previous one."""
        positions = dict.fromkeys(self._partitions, 0)
        if self._consumer is not None:
            positions |= self._consumer.positions
            self._consumer.close()
        self.begin_life()
        self._consumer = PollingConsumer(self.setting, self.process, self._isolation, {})
        self._consumer.assign(positions)

    def step(self) -> None:
        """Reads the next records."""
        assert self._consumer is not None
        self._consumer.turn()
        if self.random.random() < _LEAST:
            back = self.random.randrange(300)
            self._consumer.assign({name: max(0, at - back) for name, at in self._consumer.positions.items()})

    def finish(self) -> None:
        """Closes the consumer."""
        if self._consumer is not None:
            self._consumer.close()


class EndReader(Worker):
    """A client that asks for the ends of all partitions again and again."""

    def __init__(self, setting: Setting, name: str, partitions: Sequence[str]) -> None:
        super().__init__(setting, name)
        self._partitions = partitions
        self._client: Consumer | None = None

    def renew(self) -> None:
        """Starts a new client, under the name of the first one: a new client is told no lower end."""
        self.finish()
        if not self.process:
            self.begin_life()
        self._client = Consumer(self.setting.client_config() | {"group.id": self.process})

    def step(self) -> None:
        """Asks for the end of each partition."""
        assert self._client is not None
        for partition in self._partitions:
            topic, _, index = partition.rpartition("-")
            named = TopicPartition(topic, int(index))
            _, end = self._client.get_watermark_offsets(named, _END_TIMEOUT_S, cached=False)
            self.recorder.record(EndOffset(self.process, partition, end))
        self.pause(self.random.random() * 0.2)

    def finish(self) -> None:
        """Closes the client."""
        if self._client is not None:
            self._client.close()
            self._client = None


class GroupMember(Worker):
    """A group member that commits after about every second turn, and sometimes leaves and joins again."""

    def __init__(self, setting: Setting, name: str, group: str, topics: Sequence[str], protocol: str) -> None:
        super().__init__(setting, name)
        self._group = group
        self._topics = topics
        self._protocol: dict[str, str | int | bool] = (
            {"group.protocol": "consumer"}
            if protocol == "consumer"
            else {"session.timeout.ms": 4000, "heartbeat.interval.ms": 500, "partition.assignment.strategy": protocol}
        )
        self._consumer: PollingConsumer | None = None

    def renew(self) -> None:
        """Starts a new member."""
        if self._consumer is not None:
            self._consumer.close()
        self.begin_life()
        config = {"group.id": self._group, "auto.offset.reset": "earliest"} | self._protocol
        self._consumer = PollingConsumer(self.setting, self.process, "read_committed", config)
        self._consumer.subscribe(self._group, self._topics)

    def step(self) -> None:
        """Reads the next records, and commits."""
        consumer = self._consumer
        assert consumer is not None
        consumer.turn()
        # Commits even without new records, so that a commit that failed before is tried again.
        if consumer.positions and self.random.random() < 0.5:
            self._commit(consumer)
        if self.random.random() < _LEAST:
            self.renew()

    def _commit(self, consumer: PollingConsumer) -> None:
        offsets = dict(consumer.positions)
        operation = self.setting.next_operation()
        self.recorder.record(Commit(self.process, operation, self._group, tuple(offsets.items())))
        named = []
        for partition, offset in offsets.items():
            topic, _, index = partition.rpartition("-")
            named.append(TopicPartition(topic, int(index), offset))
        try:
            answered = consumer.client.commit(offsets=named, asynchronous=False)
        except KafkaException as error:
            self.recorder.record(Committed(self.process, operation, "unknown", str(error)))
            if code_of(error).fatal():
                raise
            return
        errors = sorted({each.error.str() for each in answered if each.error is not None})
        self.recorder.record(Committed(self.process, operation, "unknown" if errors else "ok", ", ".join(errors)))

    def finish(self) -> None:
        """Leaves the group."""
        if self._consumer is not None:
            self._consumer.close()
