"""Planted bugs in what several brokers do together: they show that worlds of several brokers find such bugs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final
from unittest.mock import patch

from tests.simulation.brokers.bugs import mark_with_the_old_epoch, store_no_assignments

from klamm.broker.partitions.led_topic import LedTopic
from klamm.broker.partitions.partition import Partition
from klamm.broker.partitions.partition_registry import PartitionRegistry
from klamm.broker.services.coordinators.marker_delivery import MarkerDelivery
from klamm.broker.services.coordinators.waiting_markers import WaitingMarkers
from klamm.broker.services.peers.peers import PeerUnavailable
from klamm.core.coordinator.shard_contract import Result
from klamm.core.group.classic import classic_shard
from klamm.core.group.classic import timers as classic_timers
from klamm.core.group.classic.callbacks import on_classic_groups_loaded
from klamm.core.group.classic.classic_groups import ClassicGroups
from klamm.core.group.consumer import consumer_shard
from klamm.core.group.consumer import timers as consumer_timers
from klamm.core.group.consumer.callbacks import on_consumer_groups_loaded
from klamm.core.group.consumer.consumer_groups import ConsumerGroups
from klamm.core.group.consumer.member import NO_PARTITIONS
from klamm.core.group.coordinator_config import GroupCoordinatorConfig
from klamm.core.txn.markers import TransactionMarker
from klamm.metadata.entries import put_writer
from klamm.metadata.image import MetadataImage, TopicImage
from klamm.metadata.metadata_store import Change, OutcomeUnknown
from klamm.metadata.plan_writer import PlanWriter
from klamm.metadata.topic_fold import TopicFold
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import BrokerId, Millis, PartitionIndex, TopicId, TopicPartition
from klamm.runtime.coordinator_facade import CoordinatorFacade
from klamm.runtime.led_partition import PartitionState
from klamm.runtime.load_queue import LoadQueue

__all__ = ["CLUSTER_BUGS"]


@contextmanager
def _keep_leading() -> Iterator[None]:
    """A broker does not resign from a partition when another broker leads it."""
    follow = LedTopic.follow

    def keep(led: LedTopic, image: TopicImage) -> list[Partition]:
        before = list(led.partitions)
        for partition in follow(led, image):
            partition.leads = True
            led.partitions[partition.index] = before[partition.index]
        return []

    with patch.object(LedTopic, "follow", keep):
        yield


@contextmanager
def _answer_before_the_load() -> Iterator[None]:
    """A coordinator answers before it has read its partition."""
    add = LoadQueue.add

    def early(queue: LoadQueue[Any], led: Any, steps: Iterator[Any]) -> None:
        led.state = PartitionState.ACTIVE
        add(queue, led, steps)

    with patch.object(LoadQueue, "add", early):
        yield


@contextmanager
def _answer_after_the_resignation() -> Iterator[None]:
    """A coordinator continues to answer when another broker leads its partition."""

    def stay(coordinator: CoordinatorFacade[Any], partition: PartitionIndex) -> None:
        return

    with patch.object(CoordinatorFacade, "on_resignation", stay):
        yield


@contextmanager
def _send_no_marker_again() -> Iterator[None]:
    """A marker for another broker counts as written although the request failed."""

    async def deliver(
        delivery: MarkerDelivery, broker_id: BrokerId, marker: TransactionMarker
    ) -> Mapping[TopicPartition, ErrorCode]:
        try:
            return await delivery._batches.ask(broker_id, marker.producer_id, marker)
        except PeerUnavailable:
            return dict.fromkeys(marker.partitions, ErrorCode.NONE)

    with patch.object(MarkerDelivery, "_deliver", deliver):
        yield


@contextmanager
def _forget_waiting_markers() -> Iterator[None]:
    """Markers that wait for a leader are not sent when the leader is back."""

    def sleep_on(waiting: WaitingMarkers, old: MetadataImage, new: MetadataImage) -> None:
        return

    with patch.object(WaitingMarkers, "on_metadata_update", sleep_on):
        yield


@contextmanager
def _repeat_blindly() -> Iterator[None]:
    """A transaction with the metadata store whose outcome is unknown is repeated without conditions."""

    async def transact(writer: PlanWriter, conditions: Mapping[str, int], changes: Sequence[Change]) -> int:
        while True:
            writer._number += 1
            try:
                mark = put_writer(writer._incarnation, writer._number)
                return await writer._store.transact(conditions, [*changes, mark])
            except OutcomeUnknown:
                conditions = {}

    with patch.object(PlanWriter, "_transact", transact):
        yield


@contextmanager
def _take_unknown_for_done() -> Iterator[None]:
    """A transaction with the metadata store that takes producer ids counts as done if its outcome is unknown."""
    real = PlanWriter._transact

    async def transact(writer: PlanWriter, conditions: Mapping[str, int], changes: Sequence[Change]) -> int:
        if any(change.key != "producer-ids" for change in changes):
            return await real(writer, conditions, changes)
        writer._number += 1
        try:
            mark = put_writer(writer._incarnation, writer._number)
            return await writer._store.transact(conditions, [*changes, mark])
        except OutcomeUnknown:
            return writer._seen[1]

    with patch.object(PlanWriter, "_transact", transact):
        yield


@contextmanager
def _show_parts() -> Iterator[None]:
    """A topic has all partitions that are in the store, even if the topic does not count them yet."""
    load = TopicFold._load

    def load_all(fold: TopicFold, topic_id: TopicId) -> Any:
        known = load(fold, topic_id)
        if topic_id in fold._counts:
            fold._counts[topic_id] = None
        return known

    with patch.object(TopicFold, "_load", load_all):
        yield


@contextmanager
def _serve_any_epoch() -> Iterator[None]:
    """Requests of clients with a former leader epoch are served."""

    def check(partition: Partition, current_leader_epoch: int) -> None:
        partition.check_leads()

    with patch.object(Partition, "check_leader_epoch", check):
        yield


@contextmanager
def _acknowledge_without_a_session() -> Iterator[None]:
    """A broker whose session has ended continues to accept writes."""

    def go_on(registry: PartitionRegistry) -> None:
        return

    with patch.object(PartitionRegistry, "refuse_writes", go_on):
        yield


@contextmanager
def _fence_at_the_load() -> Iterator[None]:
    """A coordinator that loads a group gives each member a session of 1 ms."""

    def hasty(steps: Callable[..., Iterator[Result]]) -> Callable[..., Iterator[Result]]:
        def load(*arguments: Any) -> Iterator[Result]:
            for result in steps(*arguments):
                result.timers = [
                    (key, 1 if key.kind in (classic_timers.SESSION, consumer_timers.SESSION) else delay_ms)
                    for key, delay_ms in result.timers
                ]
                yield result

        return load

    with (
        patch.object(classic_shard, "on_classic_groups_loaded", hasty(on_classic_groups_loaded)),
        patch.object(consumer_shard, "on_consumer_groups_loaded", hasty(on_consumer_groups_loaded)),
    ):
        yield


@contextmanager
def _forget_what_is_being_revoked() -> Iterator[None]:
    """A coordinator that loads a consumer group treats partitions as free that a member has not revoked yet."""

    def forget(groups: ConsumerGroups, *arguments: Any) -> Iterator[Result]:
        for group in groups.store.groups.values():
            for member in list(group.members.values()):
                group.put_member(member._replace(pending_revocation=NO_PARTITIONS))
        yield from on_consumer_groups_loaded(groups, *arguments)

    with patch.object(consumer_shard, "on_consumer_groups_loaded", forget):
        yield


@contextmanager
def _rebalance_at_the_load() -> Iterator[None]:
    """A coordinator that loads a classic group lets all members join again."""

    def load(groups: ClassicGroups, config: GroupCoordinatorConfig, _: object, now: Millis) -> Iterator[Result]:
        return on_classic_groups_loaded(groups, config, groups.store.groups, now)

    with patch.object(classic_shard, "on_classic_groups_loaded", load):
        yield


CLUSTER_BUGS: Final[Mapping[str, Callable[[], AbstractContextManager[None]]]] = {
    "keep leading": _keep_leading,
    "answer before the load": _answer_before_the_load,
    "answer after the resignation": _answer_after_the_resignation,
    "send no marker again": _send_no_marker_again,
    "forget waiting markers": _forget_waiting_markers,
    "mark with the old epoch": mark_with_the_old_epoch,
    "repeat blindly": _repeat_blindly,
    "take unknown for done": _take_unknown_for_done,
    "show parts": _show_parts,
    "serve any epoch": _serve_any_epoch,
    "acknowledge without a session": _acknowledge_without_a_session,
    "fence at the load": _fence_at_the_load,
    "rebalance at the load": _rebalance_at_the_load,
    "forget what is being revoked": _forget_what_is_being_revoked,
    "store no assignments": store_no_assignments,
}
"""Bugs that worlds of several brokers must find."""
