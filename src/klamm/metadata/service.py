"""The metadata for the broker and its handlers, and the only place that changes it.

A pure function decides a change on the current image (`topic_changes`, `config_changes`, `brokers` in this package).
The change is written as one transaction, which fails if anything that the decision depends on has changed. It becomes
visible when the store's watch delivers it. So the image always shows the store's state, and a second broker on the same
store needs nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from itertools import count
from typing import Final, Self, TypeVar

from klamm.config.broker_config import BrokerConfig
from klamm.errors import KlammError
from klamm.metadata.brokers import (
    Registration,
    latest_run,
    plan_broker_id,
    plan_cluster,
    plan_registration,
    plan_session_removal,
    plan_unregistration,
)
from klamm.metadata.config_changes import ConfigChanges, ConfigDecision, plan_configs, plan_decided_configs
from klamm.metadata.directory_content import DirectoryContent
from klamm.metadata.entries import apply, uuid_text
from klamm.metadata.image import EMPTY_IMAGE, BrokerImage, MetadataImage, TopicImage
from klamm.metadata.metadata_store import Commit, ConditionFailed, MetadataStore, MetadataStoreError, Plan, Planning
from klamm.metadata.part_sweeper import PartSweeper
from klamm.metadata.plan_writer import PlanWriter
from klamm.metadata.planning import in_steps
from klamm.metadata.producer_ids import ProducerIds
from klamm.metadata.random_uuid import random_uuid
from klamm.metadata.replicas.replica_changes import ReplicaChanges
from klamm.metadata.topic_changes import (
    NewPartitions,
    NewTopic,
    TopicRules,
    check_creation_size,
    plan_part_removal,
    plan_partition_creation,
    plan_topic_creation,
    plan_topic_deletion,
)
from klamm.metadata.version_changes import plan_version
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import BrokerId, ProducerId, TopicId, TopicPartition
from klamm.session_clock import session_time

__all__ = ["MetadataService", "NewPartitions", "NewTopic"]

T = TypeVar("T")
Subscriber = Callable[[MetadataImage, MetadataImage], None]

_EVERYTHING: Final = DirectoryContent()
_LOWEST_BROKER_ID: Final = BrokerId(1)
_DELETED_AT_ONCE: Final = 1000
"""Number of partitions that are deleted in one transaction."""
_NAMES_AT_ONCE: Final = 10_000
"""Number of names that are collected per step, which takes less than a millisecond."""

_logger = logging.getLogger(__name__)


class MetadataService:
    """The metadata as one broker sees it. Created with `open`; used only on the event loop's thread.

    Every method that changes something returns after the change is durable, `image` shows it and all subscribers were
    called. It raises KAFKA_STORAGE_ERROR if the store can't write; then nothing has changed.
    """

    def __init__(self, store: MetadataStore, config: BrokerConfig) -> None:
        """Creates an empty service. Use `open`, which also reads the store."""
        self.image: MetadataImage = EMPTY_IMAGE
        self.is_closed = False
        self.incarnation: Final = uuid_text(random_uuid())
        """The id of this run of the broker."""
        self._store = store
        self._writer = PlanWriter(store, self.incarnation)
        self._sweeper = PartSweeper(self._remove_parts)
        self._broker_id = config.node_id
        self._rules = TopicRules.of(config, is_shared=store.is_shared)
        self.replicas = ReplicaChanges(self._change, config.node_id, self.incarnation, self._writer.room)
        """The changes of replicas and leaders."""
        self.replicas.is_unclean_allowed = config.topic_defaults.unclean_leader_election_enable
        # With eligible leader replicas (KIP-966) this key is set for the cluster, and Kafka sets it when it creates
        # one.
        self._cluster_defaults = {"min.insync.replicas": str(config.topic_defaults.min_insync_replicas)}
        self._revisions: dict[str, int] = {}
        self._changed_meanwhile: set[str] = set()
        """The keys that were changed since the present decision began."""
        self._subscribers: list[Subscriber] = []
        self._before_creation: Callable[[Collection[str]], Awaitable[None]] = _ready
        # One change at a time: otherwise the second would be decided on an image that the first is about to change.
        self._changing = asyncio.Lock()
        self._images: deque[MetadataImage] = deque()
        """The images after `image`: applied, but not shown yet."""
        self._latest = EMPTY_IMAGE
        """The newest of these images. Only the store's thread writes `_latest`; both threads use `_images`."""
        self.producer_ids = ProducerIds(self._change)

    @property
    def is_shared(self) -> bool:
        """Whether other brokers may use the same store."""
        return self._store.is_shared

    def has_session(self) -> bool:
        """Returns whether the session is certain to last now (`MetadataStore.valid_until`). Otherwise another broker
        may lead the partitions already; a process that was stopped sees this here before it is told."""
        return session_time() < self._store.valid_until()  # in this order: see `EtcdSession.valid_until`

    @classmethod
    async def open(cls, store: MetadataStore, config: BrokerConfig) -> Self:
        """Creates a service with the content of the store. Raises MetadataStoreError if it can't be read."""
        service = cls(store, config)
        await store.watch(service._show_commit, prepare=service._apply_commit)
        return service

    async def close(self) -> None:
        """Finishes the change in progress, and closes the store."""
        self._sweeper.stop()
        async with self._changing:
            await self._store.close()
        self.is_closed = True

    def use_config(self, config: BrokerConfig) -> None:
        """Applies the broker's new configuration to topics that are created later."""
        self._rules = TopicRules.of(config, is_shared=self._store.is_shared)
        self.replicas.is_unclean_allowed = config.topic_defaults.unclean_leader_election_enable

    def before_creation(self, prepare: Callable[[Collection[str]], Awaitable[None]]) -> None:
        """Sets a function to await with the names of topics about to be created, while nothing else changes."""
        self._before_creation = prepare

    def subscribe(self, subscriber: Subscriber) -> None:
        """Calls `subscriber(old, new)` on the loop for each new image, in order, before the change returns to its
        caller.

        Subscribers are called in the order of subscription. Their exceptions are only logged, because the change has
        already happened.
        """
        self._subscribers.append(subscriber)

    async def start_broker(
        self,
        endpoints: Mapping[str, tuple[str, int]],
        rack: str | None = None,
        *,
        cluster_id: str | None = None,
        minimum_leader_epochs: Mapping[TopicPartition, int] | None = None,
        known_incarnation: str | None = None,
        record_incarnation: Callable[[str, str], None] | None = None,
        content: DirectoryContent = _EVERYTHING,
    ) -> BrokerImage:
        """Registers this broker under a new epoch and raises the leader epoch of every partition that it leads.

        `endpoints`: host and port by listener name, the first listener first. `known_incarnation`: the run that the
        data directory has recorded, which is over. `record_incarnation` is called with the cluster id and the new
        incarnation before the broker is live, so that a later start knows this run as its own. `content`: what the
        data directory holds.

        The first start creates the cluster. It sets the cluster id (the given one, from the data directory, or a new
        one) and the default of `min.insync.replicas`, which is dynamic from then on, as in Kafka 4.3.
        `minimum_leader_epochs`: the lowest epoch that a partition may get, one above the last in its log. Raises
        KlammError if the store belongs to another cluster than `cluster_id`, and BrokerIsLive if this broker is live
        with another incarnation.
        """
        self.check_cluster(cluster_id)
        cluster = cluster_id or uuid_text(random_uuid())
        own = (self.incarnation, *filter(None, [known_incarnation]))
        await self._change(lambda image: plan_session_removal(image, self._broker_id, own))
        latest = latest_run(self.image, self._broker_id)
        if record_incarnation is not None:
            # Another broker may create the cluster now, so the id is certain only after this.
            await self._change(lambda image: plan_cluster(image, cluster, self._cluster_defaults))
            self.check_cluster(cluster_id)
            record_incarnation(self.image.cluster_id, self.incarnation)
        wanted = Registration(
            broker_id=self._broker_id,
            endpoints=endpoints,
            rack=rack,
            incarnation=self.incarnation,
            cluster_id=cluster,
            cluster_defaults=self._cluster_defaults,
            minimum_leader_epochs=minimum_leader_epochs or {},
            is_shared=self.is_shared,
            content=content.begun(latest, self.incarnation),
        )
        if self.is_shared and content.has_kept_all(latest):
            await self.replicas.keep_leaders(elects_unclean=False)  # as for every broker that has gone
        await self._change(lambda image: plan_registration(image, wanted))
        self.check_cluster(cluster_id)
        self._sweep_if_controller()
        broker = self.image.brokers.get(self._broker_id)
        if broker is None:
            raise MetadataStoreError(f"the session of broker {self._broker_id} has ended while it started")
        return broker

    def check_cluster(self, cluster_id: str | None) -> None:
        """Raises KlammError if the store belongs to another cluster than the one that is required, if any."""
        known = self.image.cluster_id
        if known and cluster_id is not None and known != cluster_id:
            raise KlammError(
                f"the metadata store belongs to cluster {known}, the data directory to cluster {cluster_id}"
            )

    async def catch_up(self) -> None:
        """Returns once `image` shows all changes that any broker had made before (`MetadataStore.catch_up`)."""
        await self._store.catch_up()

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, TopicImage | KafkaError]:
        """Creates topics. Returns each topic, or the reason why it was not created. Names must be unique.

        Raises POLICY_VIOLATION if the whole request is too large.
        """
        rules = self._rules
        if validate_only:
            return (await in_steps(plan_topic_creation(self.image, topics, rules))).result
        if self._writer.room is None:
            return await self._create(topics, rules)
        # One decision has one commit point.
        await in_steps(check_creation_size(topics, rules))
        results: dict[str, TopicImage | KafkaError] = {}
        for topic in topics:
            results |= await self._create([topic], rules)
        return results

    async def _create(self, topics: Sequence[NewTopic], rules: TopicRules) -> dict[str, TopicImage | KafkaError]:
        return await self._change(
            lambda image: plan_topic_creation(image, topics, rules),
            prepare=lambda: self._prepare_creation(topics),
        )

    async def _prepare_creation(self, topics: Sequence[NewTopic]) -> None:
        names: list[str] = []
        for start in range(0, len(topics), _NAMES_AT_ONCE):
            names += [topic.name for topic in topics[start : start + _NAMES_AT_ONCE]]
            await asyncio.sleep(0)
        await self._before_creation(names)

    async def ensure_topic(self, topic: NewTopic) -> TopicImage:
        """Returns the topic, and creates it if necessary. Raises the error that CreateTopics would return."""
        known = self.image.topics.get(topic.name)
        if known is None:
            result = (await self.create_topics([topic]))[topic.name]
            # Another request may have created it while this one waited for the lock.
            known = self.image.topics.get(topic.name)
            if known is None:
                assert isinstance(result, KafkaError)
                raise result
        return known

    async def delete_topics(self, topic_ids: Collection[TopicId]) -> dict[TopicId, KafkaError | None]:
        """Deletes topics. Returns None for each deleted topic, UNKNOWN_TOPIC_ID for one that does not exist.

        A large number is deleted in several transactions.
        """
        results: dict[TopicId, KafkaError | None] = {}
        some: list[TopicId] = []
        size = 0
        for topic_id in topic_ids:
            topic = self.image.topics_by_id.get(topic_id)
            some.append(topic_id)
            size += 1 if topic is None else len(topic.partitions)
            if size >= _DELETED_AT_ONCE or self._writer.room is not None:
                results |= await self._delete(some)
                some, size = [], 0
        return results | await self._delete(some)

    async def _delete(self, topic_ids: Collection[TopicId]) -> dict[TopicId, KafkaError | None]:
        return await self._change(lambda image: plan_topic_deletion(image, topic_ids))

    async def create_partitions(
        self, wanted_changes: Sequence[NewPartitions], *, validate_only: bool = False
    ) -> dict[str, KafkaError | None]:
        """Adds partitions. Returns None for each topic on success, otherwise the reason. Topics must be unique."""
        if validate_only:
            return (await in_steps(plan_partition_creation(self.image, wanted_changes))).result
        if self._writer.room is None:
            return await self._change(lambda image: plan_partition_creation(image, wanted_changes))
        results: dict[str, KafkaError | None] = {}
        added = 0
        for wanted_change in wanted_changes:
            before = self.image.topics.get(wanted_change.topic)
            results |= await self._widen(wanted_change, added)
            if before is not None and results[wanted_change.topic] is None:
                added += max(wanted_change.count - len(before.partitions), 0)
        return results

    async def _widen(self, wanted_change: NewPartitions, added: int) -> dict[str, KafkaError | None]:
        return await self._change(lambda image: plan_partition_creation(image, [wanted_change], added=added))

    async def alter_configs(self, changes: ConfigChanges) -> None:
        """Sets overrides of resources (None unsets one), by resource type and name: all of them or none.

        The values must have been checked. Raises UNKNOWN_TOPIC_OR_PARTITION for a topic that does not exist.
        """
        await self._change(lambda image: plan_configs(image, changes))

    async def decide_configs(
        self, decide: Callable[[MetadataImage], ConfigDecision[T]], *, validate_only: bool = False
    ) -> tuple[T, ConfigChanges]:
        """Makes the config changes that `decide` returns for the current image, with its result.

        If another broker changes one of these resources meanwhile, `decide` is called again with the newer image.
        """
        if validate_only:
            return await in_steps(decide(self.image))
        return await self._change(lambda image: plan_decided_configs(image, decide))

    async def raise_metadata_version(self, version: int, *, validate_only: bool = False) -> None:
        """Allows all brokers to write what a later metadata version has. Raises the errors of `plan_version`."""
        if validate_only:
            plan_version(self.image, version)
            return
        await self._change(lambda image: plan_version(image, version))

    async def unregister_broker(self, broker_id: BrokerId) -> None:
        """Removes the registration of a broker. Raises the errors of `plan_unregistration`."""
        await self._change(lambda image: plan_unregistration(image, broker_id, is_shared=self.is_shared))

    async def allocate_broker_id(self, lowest: BrokerId = _LOWEST_BROKER_ID) -> BrokerId:
        """Allocates a broker id that no other broker has or had, from `lowest` on, to a broker without an id."""
        return await self._change(lambda image: plan_broker_id(image, lowest))

    async def next_producer_id(self) -> ProducerId:
        """Returns a new producer id. Only every thousandth call writes to the store."""
        return await self.producer_ids.next()

    async def _change(
        self,
        decide: Callable[[MetadataImage], Plan[T] | Planning[T]],
        *,
        prepare: Callable[[], Awaitable[None]] | None = None,
    ) -> T:
        async with self._changing:
            if prepare is not None:
                await prepare()
            for attempt in count():
                self._changed_meanwhile.clear()
                decided = decide(self.image)
                plan = decided if isinstance(decided, Plan) else await in_steps(decided)
                keys = [*(change.key for change in plan.changes), *plan.reads]
                if not self._changed_meanwhile.isdisjoint(keys):
                    continue  # Another broker's change came between two steps: the decision doesn't include it.
                if not plan.changes:
                    return plan.result
                try:
                    await self._writer.write(plan, {key: self._revisions.get(key, 0) for key in keys})
                except ConditionFailed:
                    # Another broker was faster. The watch has already delivered its change, so the next decision
                    # includes it.
                    await self._writer.back_off(plan, attempt, self._broker_id)
                    continue
                except MetadataStoreError as error:
                    raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
                return plan.result
            raise AssertionError("the loop ends with a return")

    def _apply_commit(self, commit: Commit) -> None:
        """Makes the next image, on the store's thread, because this is slow with thousands of partitions."""
        self._latest = apply(self._latest, commit.revision, commit.entries)
        self._images.append(self._latest)

    def _show_commit(self, commit: Commit) -> None:
        old = self.image
        self._writer.observe(commit)
        self._changed_meanwhile.update(commit.entries)
        for key, entry in commit.entries.items():
            if entry is None:
                self._revisions.pop(key, None)
            else:
                self._revisions[key] = entry.mod_revision
        self.image = self._images.popleft()
        for subscriber in self._subscribers:
            try:
                subscriber(old, self.image)
            except Exception:
                _logger.exception("a subscriber failed on metadata revision %d", commit.revision)
        if not old.brokers.keys() <= self.image.brokers.keys():
            self._sweep_if_controller()

    def _sweep_if_controller(self) -> None:
        if self.image.parts and self.image.controller_id == self._broker_id and not self.is_closed:
            self._sweeper.start()

    async def _remove_parts(self) -> int:
        return await self._change(lambda image: plan_part_removal(image, self._writer.room))


async def _ready(topics: Collection[str]) -> None:
    """Does nothing before topics are created."""
