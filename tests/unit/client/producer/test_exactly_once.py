"""Tests that under all faults, acknowledged records are in their partition exactly once and in order, and that
transactions are all or nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cluster_model import TOPIC
from tests.support.examples import examples
from tests.support.producer_world import Faults, ProducerWorld, Script

from klamm.client.config import ClientConfig
from klamm.client.producer.errors import TransactionMustAbort
from klamm.client.producer.outcome import Delivery, Operation
from klamm.client.producer.producer_config import ProducerConfig
from klamm.client.producer.transactions import OffsetToCommit
from klamm.protocol.records import encode_batch
from klamm.protocol.types import Millis, Offset, PartitionIndex, TopicPartition

CLIENT = ClientConfig((("one", 9092),), request_timeout_ms=500)
FAULTS = Faults(
    breaks=0.03, lost_answers=0.05, refused_connections=0.1, silence=0.01, leader_changes=0.05, errors=0.1, late=0.5
)
SEEDS = st.integers(min_value=0, max_value=2**32)


def place(index: int) -> TopicPartition:
    return TopicPartition(TOPIC, PartitionIndex(index))


class Sender:
    """An application that sends numbered records and keeps their deliveries."""

    def __init__(self, world: ProducerWorld) -> None:
        self.world = world
        self.deliveries: list[tuple[int, bytes, Delivery]] = []
        self._next = 0

    def send(self, index: int) -> Script:
        """Sends one record, or a finished batch of several."""
        world = self.world
        count = world.random.choice((1, 1, 1, 3))
        values = [b"%06d" % (self._next + offset) for offset in range(count)]
        self._next += count
        found: list[Delivery] = []

        def attempt() -> bool:
            if count == 1:
                delivery = world.machine.send(place(index), (1, None, values[0], ()), world.now)
            else:
                batch = encode_batch([(1, None, value, ()) for value in values])
                delivery = world.machine.send_batch(place(index), batch, world.now)
            found.extend([delivery] if delivery is not None else [])
            return delivery is not None

        if not attempt():
            yield attempt
        self.deliveries += [(index, value, found[0]) for value in values]

    def acknowledged(self, index: int) -> list[bytes]:
        return [value for at, value, delivery in self.deliveries if at == index and delivery.error is None]


def ended(operation: Operation) -> Callable[[], bool]:
    return lambda: operation.is_done


def send_all(world: ProducerWorld, sender: Sender, count: int) -> Script:
    """Sends with pauses in between, then flushes after the faults have healed."""
    for _ in range(count):
        yield from sender.send(world.random.randrange(len(world.model.partitions)))
        if world.random.random() < 0.3:
            until = world.now + world.random.randint(1, 30)
            yield lambda until=until: world.now >= until  # type: ignore[misc]
    world.heal()
    yield ended(world.machine.flush())


@settings(max_examples=examples(150))
@given(SEEDS)
def test_each_record_is_in_its_partition_once_and_in_order(seed: int) -> None:
    """With lost answers, broken and refused connections, timeouts, leader changes and late requests, each record is
    in its partition once and in order."""
    config = ProducerConfig(CLIENT, batch_size_bytes=120, buffer_memory_bytes=2000, linger_ms=3)
    world = ProducerWorld(seed, config)
    world.faults = FAULTS
    sender = Sender(world)
    world.run(send_all(world, sender, 60))
    assert all(delivery.error is None for _, _, delivery in sender.deliveries)
    for index, partition in enumerate(world.model.partitions):
        assert [value for value, _, _ in partition.records] == sender.acknowledged(index)
    assert world.machine.used_bytes == world.machine.unfinished_batches == 0


@settings(max_examples=examples(150))
@given(SEEDS)
def test_what_expires_is_written_at_most_once_and_the_rest_exactly_once(seed: int) -> None:
    """With a short delivery timeout, some batches fail with an unknown outcome; the others are complete, in order and
    without duplicates."""
    config = ProducerConfig(
        CLIENT, batch_size_bytes=120, buffer_memory_bytes=2000, linger_ms=3, delivery_timeout_ms=700
    )
    world = ProducerWorld(seed, config)
    world.faults = Faults(
        breaks=0.1, lost_answers=0.15, refused_connections=0.3, silence=0.1, leader_changes=0.1, errors=0.2, late=0.5
    )
    sender = Sender(world)
    world.run(send_all(world, sender, 60))
    world.settle(5000)
    for index, partition in enumerate(world.model.partitions):
        written = [value for value, _, _ in partition.records]
        assert len(set(written)) == len(written), "a record was written twice"
        acknowledged = set(sender.acknowledged(index))
        assert [value for value in written if value in acknowledged] == sender.acknowledged(index)


@settings(max_examples=examples(60))
@given(SEEDS)
def test_a_batch_that_is_too_large_is_split_in_order(seed: int) -> None:
    """A batch that a broker refuses as too large arrives in smaller batches, and the order of the records is kept."""
    config = ProducerConfig(CLIENT, batch_size_bytes=600, buffer_memory_bytes=10_000, linger_ms=3)
    world = ProducerWorld(seed, config)
    world.faults = FAULTS
    for partition in world.model.partitions:
        partition.largest_batch_bytes = 130
    sender = Sender(world)
    world.run(send_all(world, sender, 60))
    for index, partition in enumerate(world.model.partitions):
        assert [value for value, _, _ in partition.records] == sender.acknowledged(index)
    assert world.machine.used_bytes == world.machine.unfinished_batches == 0


def run_transactions(world: ProducerWorld, sender: Sender, done: list[list[list[bytes]]], offsets: list[int]) -> Script:
    """Runs transactions; a failed transaction is aborted and repeated with other records."""
    machine, random = world.machine, world.random
    operation = machine.init_transactions()
    yield ended(operation)
    assert operation.error is None
    for number in range(8):
        # A repeated transaction makes the same choices, so that a producer that has lost its state can't get past it.
        count, commits, has_offsets = random.randrange(12), random.random() < 0.7, random.random() < 0.4
        while True:
            if (ready := machine.when_ready()) is not None:
                yield ended(ready)
            machine.begin()
            first = len(sender.deliveries)
            try:
                for _ in range(count):
                    yield from sender.send(random.randrange(len(world.model.partitions)))
                if has_offsets:
                    operation = machine.send_offsets({place(0): OffsetToCommit(Offset(number))}, "g", None)
                    yield ended(operation)
                    if operation.error is not None:
                        raise operation.error
                operation = machine.end_transaction(commits=commits)
                yield ended(operation)
                machine.seen(operation)
                if operation.error is not None:
                    raise operation.error
            except TransactionMustAbort:
                operation = machine.end_transaction(commits=False)
                yield ended(operation)
                machine.seen(operation)
                assert operation.error is None
                continue
            if commits:
                mine = sender.deliveries[first:]
                done.append([[value for at, value, _ in mine if at == index] for index in range(2)])
                offsets += [number] if has_offsets else []
            break
    world.heal()
    world.settle(2000)


@pytest.mark.parametrize("second_protocol", [True, False], ids=["v2", "v1"])
@pytest.mark.parametrize("delivery_timeout_ms", [120_000, 700], ids=["patient", "hasty"])
@settings(max_examples=examples(100))
@given(seed=SEEDS)
def test_a_transaction_is_all_or_nothing(seed: int, second_protocol: bool, delivery_timeout_ms: int) -> None:
    """A read_committed consumer sees the records and offsets of the committed transactions, in order, and no others."""
    config = ProducerConfig(
        CLIENT,
        transactional_id="x",
        batch_size_bytes=120,
        buffer_memory_bytes=2000,
        linger_ms=3,
        delivery_timeout_ms=Millis(delivery_timeout_ms),
    )
    world = ProducerWorld(seed, config, second_protocol=second_protocol)
    world.faults = FAULTS
    sender = Sender(world)
    done: list[list[list[bytes]]] = []
    offsets: list[int] = []
    world.run(run_transactions(world, sender, done, offsets))
    for index, partition in enumerate(world.model.partitions):
        assert partition.committed() == [value for transaction in done for value in transaction[index]]
        assert all(committed is not None for _, _, committed in partition.records), "a transaction hangs"
    assert world.model.group_offsets == ({0: offsets[-1]} if offsets else {})
    assert world.machine.used_bytes == world.machine.unfinished_batches == 0
