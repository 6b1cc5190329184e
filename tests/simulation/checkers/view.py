"""The internal state of a coordinator that checkers may see: its groups between two steps."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.broker import Broker
from tests.simulation.disk import STATE_PARTITION

from klamm.core.group.classic.classic_group import ClassicGroup
from klamm.core.group.consumer.consumer_group import ConsumerGroup
from klamm.core.group.shard import GroupShard
from klamm.core.txn.shard import TransactionShard
from klamm.protocol.types import PartitionIndex
from klamm.runtime.led_partition import PartitionState

__all__ = ["active_shard", "active_shards", "find_group", "is_loading", "transaction_shard"]


def active_shards(broker: Broker) -> Iterator[tuple[PartitionIndex, GroupShard]]:
    """Yields the active shards of a broker."""
    if broker.coordinator is not None:
        for partition, led in broker.coordinator._runtime._led.items():
            if led.state is PartitionState.ACTIVE:
                yield partition, led.shard


def active_shard(broker: Broker, partition: PartitionIndex) -> GroupShard | None:
    """Returns the shard of one partition if the broker leads it and answers, else None."""
    if broker.coordinator is None:
        return None
    led = broker.coordinator._runtime._led.get(partition)
    return led.shard if led is not None and led.state is PartitionState.ACTIVE else None


def is_loading(broker: Broker, partition: PartitionIndex) -> bool:
    """Returns whether a coordinator of the broker is reading the log of the partition."""
    states: dict[PartitionIndex, PartitionState] = {}
    if broker.coordinator is not None:
        states = {index: led.state for index, led in broker.coordinator._runtime._led.items()}
    if broker.transactions is not None:
        for led in broker.transactions.coordinator._runtime._led.values():
            states[STATE_PARTITION] = led.state
    return states.get(partition) is PartitionState.LOADING


def transaction_shard(broker: Broker) -> TransactionShard | None:
    """Returns the shard of `__transaction_state` if the broker leads it and answers, else None."""
    return None if broker.transactions is None else broker.transactions.coordinator._runtime.shard(PartitionIndex(0))


def find_group(shard: GroupShard, group_id: str) -> ClassicGroup | ConsumerGroup | None:
    """Returns the group, or None if there is no such group."""
    consumer = shard.consumer_groups.store.groups.get(group_id)
    if consumer is not None:
        return consumer
    if group_id not in shard.classic_groups.store.groups:
        return None
    group = shard.groups.peek(group_id)
    assert isinstance(group, ClassicGroup)
    return group
