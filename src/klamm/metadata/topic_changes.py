"""Decides requests that create, delete or widen topics: pure functions on an image, in steps.

The order of the checks, the error codes and the messages are those of `ReplicationControlManager` of Apache Kafka 4.3,
so that a client gets the same refusal. Each topic of a request succeeds or fails by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Final, Self

from klamm.config.broker_config import BrokerConfig
from klamm.metadata.config_changes import check_new_topic
from klamm.metadata.entries import live_key, partition_key, put_partition, put_topic, topic_key
from klamm.metadata.image import MetadataImage, PartitionImage, TopicImage
from klamm.metadata.metadata_store import Change, Plan, Planning
from klamm.metadata.metadata_version import FIRST_VERSION_WITH_FOLLOWERS, HOW_TO_RAISE
from klamm.metadata.placement import check_assignment, place
from klamm.metadata.random_uuid import random_uuid
from klamm.metadata.replicas.replica_rules import may_lead
from klamm.metadata.topic_name import collision_key, why_invalid
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import BrokerId, LeaderEpoch, PartitionIndex, TopicId

__all__ = [
    "NewPartitions",
    "NewTopic",
    "TopicRules",
    "check_creation_size",
    "plan_part_removal",
    "plan_partition_creation",
    "plan_topic_creation",
    "plan_topic_deletion",
]

_MAXIMUM_PARTITIONS_PER_REQUEST: Final = 10_000
_PLACED_AT_ONCE: Final = 500
_MAX_CONFIGS_PER_TOPIC: Final = 10_000
"""The number of records that Kafka writes in one operation."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. -1 means the broker's default; with `assignments` (partition to replicas) both numbers must be
    -1."""

    name: str
    _: KW_ONLY
    partitions: int = -1
    replication_factor: int = -1
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPartitions:
    """A request to raise a topic's number of partitions to `count`.

    `assignments` has the replicas of each new partition; with None they are placed automatically.
    """

    topic: str
    count: int
    assignments: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRules:
    """This broker's defaults and checks for new topics."""

    partitions: int
    replication_factor: int
    check_configs: Callable[[Mapping[str, str]], None]
    """Raises INVALID_CONFIG if a topic can't have these overrides."""
    new_topic_id: Callable[[], TopicId]
    is_shared: bool = False
    """Whether the metadata store may have several brokers, so that a partition may have several replicas."""

    @classmethod
    def of(cls, config: BrokerConfig, *, is_shared: bool) -> Self:
        """Returns the rules of a broker with this configuration."""
        return cls(
            partitions=config.num_partitions,
            replication_factor=config.default_replication_factor,
            check_configs=lambda overrides: check_new_topic(overrides, config.topic_defaults),
            new_topic_id=lambda: TopicId(random_uuid()),
            is_shared=is_shared,
        )


def plan_topic_creation(
    image: MetadataImage, topics: Sequence[NewTopic], rules: TopicRules
) -> Planning[dict[str, TopicImage | KafkaError]]:
    """Plans new topics: the result has each topic, or the reason against it. Names in `topics` must be unique.

    Raises POLICY_VIOLATION if the whole request has more partitions than one transaction should hold.
    """
    yield from check_creation_size(topics, rules)
    results: dict[str, TopicImage | KafkaError] = {}
    changes: list[Change] = []
    reads: dict[str, None] = {}
    commit_key: str | None = None
    names = dict(image.names_by_collision_key)
    for wanted_change in topics:
        yield
        try:
            created = yield from _new_topic(image, names, wanted_change, rules)
        except KafkaError as error:
            results[wanted_change.name] = error.with_traceback(None)  # the traceback refers to the results: a cycle
            continue
        names[collision_key(created.name)] = created.name
        results[created.name] = created
        yield from _put_partitions(changes, created.topic_id, created.partitions)
        reads |= _members(created.partitions)
        # The topic comes last: its partitions exist once it is written.
        commit = put_topic(created)
        changes.append(commit)
        commit_key = commit.key
    return Plan(results, changes, list(reads), commit_key)


def check_creation_size(topics: Sequence[NewTopic], rules: TopicRules) -> Generator[None, None, None]:
    """Raises POLICY_VIOLATION if the topics of a request have too many partitions together."""
    wanted = 0
    for topic in topics:
        wanted += len(topic.assignments) or (rules.partitions if topic.partitions == -1 else max(topic.partitions, 0))
        if wanted > _MAXIMUM_PARTITIONS_PER_REQUEST:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
        yield


def _members(partitions: Iterable[PartitionImage]) -> dict[str, None]:
    """Returns the keys of the runs that lead new partitions with several replicas, or are in sync.

    If such a broker goes before its partition exists, the controller has looked at the partitions already. It would
    elect no leader, or a member that is gone would stay in sync, and block acks=all, until the leader notices its lag.
    """
    return {live_key(member): None for each in partitions if len(each.replicas) > 1 for member in each.isr}


def _put_partitions(
    changes: list[Change], topic_id: TopicId, partitions: Iterable[PartitionImage]
) -> Generator[None, None, None]:
    for partition in partitions:
        changes.append(put_partition(topic_id, partition))
        yield


def _new_topic(
    image: MetadataImage, names: Mapping[str, str], wanted_change: NewTopic, rules: TopicRules
) -> Generator[None, None, TopicImage]:
    _check_name(names, wanted_change.name)
    if len(wanted_change.configs) > _MAX_CONFIGS_PER_TOPIC:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
    nulls = [key for key, value in wanted_change.configs.items() if value is None]
    if nulls:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(nulls)}")
    configs = {key: value for key, value in wanted_change.configs.items() if value is not None}
    rules.check_configs(configs)
    topic_id = rules.new_topic_id()
    if wanted_change.assignments:
        replicas = yield from _assigned_replicas(image, wanted_change, rules)
    else:
        replicas = yield from _placed_replicas(image, wanted_change, rules, topic_id)
    partitions = yield from _new_partitions(image, 0, replicas)
    return TopicImage(wanted_change.name, topic_id, tuple(partitions), configs)


def _check_name(names: Mapping[str, str], name: str) -> None:
    reason = why_invalid(name)
    if reason is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    known = names.get(collision_key(name))
    if known == name:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    if known is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {known}")


def _assigned_replicas(
    image: MetadataImage, wanted_change: NewTopic, rules: TopicRules
) -> Generator[None, None, list[tuple[BrokerId, ...]]]:
    manual = "A manual partition assignment was specified, but"
    if wanted_change.replication_factor != -1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{manual} replication factor was not set to -1.")
    if wanted_change.partitions != -1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{manual} numPartitions was not set to -1.")
    replicas: dict[int, tuple[BrokerId, ...]] = {}
    replication_factor: int | None = None
    for index, brokers in wanted_change.assignments:
        if index in replicas:
            reason = f"Found multiple manual partition assignments for partition {index}"
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
        replicas[index] = check_assignment(image, brokers, replication_factor, index)
        replication_factor = len(brokers)
        yield
    if replicas.keys() != set(range(len(replicas))):
        reason = "partitions should be a consecutive 0-based integer sequence"
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
    _check_replication_factor(
        replication_factor or 0, rules, image.metadata_version, ErrorCode.INVALID_REPLICA_ASSIGNMENT
    )
    return [replicas[index] for index in range(len(replicas))]


def _placed_replicas(
    image: MetadataImage, wanted_change: NewTopic, rules: TopicRules, topic_id: TopicId
) -> Generator[None, None, list[tuple[BrokerId, ...]]]:
    if wanted_change.replication_factor < -1 or wanted_change.replication_factor == 0:
        reason = "Replication factor must be larger than 0, or -1 to use the default value."
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, reason)
    if wanted_change.partitions < -1 or wanted_change.partitions == 0:
        reason = "Number of partitions was set to an invalid non-positive value."
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, reason)
    count = rules.partitions if wanted_change.partitions == -1 else wanted_change.partitions
    factor = rules.replication_factor if wanted_change.replication_factor == -1 else wanted_change.replication_factor
    try:
        replicas = yield from _place(image, range(count), factor, topic_id)
    except KafkaError as error:
        reason = f"Unable to replicate the partition {factor} time(s): {error.message}"
        raise KafkaError(error.code, reason) from None
    _check_replication_factor(factor, rules, image.metadata_version, ErrorCode.INVALID_REPLICATION_FACTOR)
    return replicas


def _check_replication_factor(factor: int, rules: TopicRules, metadata_version: int, code: ErrorCode) -> None:
    if factor > 1 and not rules.is_shared:
        raise KafkaError(
            code, f"The replication factor is {factor}, but a single broker keeps one replica of each partition."
        )
    if factor > 1 and metadata_version < FIRST_VERSION_WITH_FOLLOWERS:
        raise KafkaError(
            code,
            f"The replication factor is {factor}, but the cluster's metadata version {metadata_version} allows one "
            f"replica. More replicas need version {FIRST_VERSION_WITH_FOLLOWERS}: {HOW_TO_RAISE}.",
        )


def _place(
    image: MetadataImage, indexes: range, replication_factor: int, topic_id: TopicId
) -> Generator[None, None, list[tuple[BrokerId, ...]]]:
    replicas: list[tuple[BrokerId, ...]] = []
    for start in range(0, max(len(indexes), 1), _PLACED_AT_ONCE):
        some = indexes[start : start + _PLACED_AT_ONCE]
        replicas += place(image, some, replication_factor, shift=_shift(topic_id))
        yield
    return replicas


def _shift(topic_id: TopicId) -> int:
    """Returns a number that is practically random, but the same for each call with the topic."""
    return int.from_bytes(topic_id[:4], "big")


def _new_partitions(
    image: MetadataImage, first: int, replicas: Iterable[tuple[BrokerId, ...]]
) -> Generator[None, None, list[PartitionImage]]:
    partitions: list[PartitionImage] = []
    for index, ids in enumerate(replicas, first):
        isr = tuple(broker_id for broker_id in ids if may_lead(image, broker_id))
        partitions.append(PartitionImage(PartitionIndex(index), isr[0], LeaderEpoch(0), ids, isr))
        yield
    return partitions


def plan_topic_deletion(
    image: MetadataImage, topic_ids: Collection[TopicId]
) -> Planning[dict[TopicId, KafkaError | None]]:
    """Plans the deletion of topics with all their entries: the result has None for each, UNKNOWN_TOPIC_ID for missing
    ones."""
    results: dict[TopicId, KafkaError | None] = {}
    changes: list[Change] = []
    commit_key: str | None = None
    for topic_id in topic_ids:
        yield
        topic = image.topics_by_id.get(topic_id)
        if topic is None:
            results[topic_id] = KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        elif topic_id not in results:
            results[topic_id] = None
            commit_key = topic_key(topic.name)
            changes.append(Change(commit_key, None))
            for partition in topic.partitions:
                changes.append(Change(partition_key(topic_id, partition.index), None))
                yield
    return Plan(results, changes, commit_key=commit_key)


def plan_part_removal(image: MetadataImage, limit: int | None) -> Plan[int]:
    """Plans to delete partitions that do not exist, at most `limit`. Returns their number.

    The lowest partition of a topic is deleted first: a creation in progress can't be completed after that (see
    `plan_writer`).
    """
    changes: list[Change] = []
    for topic_id, partitions in image.parts.items():
        changes.extend(Change(partition_key(topic_id, index), None) for index in sorted(partitions))
    some = changes if limit is None else changes[:limit]
    return Plan(len(some), some)


def plan_partition_creation(
    image: MetadataImage, wanted_changes: Sequence[NewPartitions], *, added: int = 0
) -> Planning[dict[str, KafkaError | None]]:
    """Plans new partitions: the result has None for each topic, or the reason against it. Topics must be unique.

    `added`: the number of partitions that the request has added already.
    """
    results: dict[str, KafkaError | None] = {}
    changes: list[Change] = []
    reads: dict[str, None] = {}
    commit_key: str | None = None
    for wanted_change in wanted_changes:
        yield
        try:
            topic, partitions = yield from _more_partitions(image, wanted_change)
            if added + len(partitions) > _MAXIMUM_PARTITIONS_PER_REQUEST:
                raise KafkaError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
        except KafkaError as error:
            results[wanted_change.topic] = error.with_traceback(None)
            continue
        results[wanted_change.topic] = None
        added += len(partitions)
        yield from _put_partitions(changes, topic.topic_id, partitions)
        reads |= _members(partitions)
        # The partitions exist once the topic counts them.
        commit = put_topic(topic, len(topic.partitions) + len(partitions))
        changes.append(commit)
        commit_key = commit.key
    return Plan(results, changes, list(reads), commit_key)


def _more_partitions(
    image: MetadataImage, wanted_change: NewPartitions
) -> Generator[None, None, tuple[TopicImage, list[PartitionImage]]]:
    topic = image.topics.get(wanted_change.topic)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    present = len(topic.partitions)
    if wanted_change.count == present:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if wanted_change.count < present:
        reason = (
            f"The topic {topic.name} currently has {present} partition(s); "
            f"{wanted_change.count} would not be an increase."
        )
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, reason)
    additional = wanted_change.count - present
    factor = len(topic.partitions[0].replicas)
    if additional > _MAXIMUM_PARTITIONS_PER_REQUEST:
        # Refused before the placement, whose memory would be proportional to a number from the client.
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
    if wanted_change.assignments is not None:
        if len(wanted_change.assignments) != additional:
            reason = (
                f"Attempted to add {additional} additional partition(s), but only {len(wanted_change.assignments)} "
                "assignment(s) were specified."
            )
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
        replicas: list[tuple[BrokerId, ...]] = []
        for index, brokers in enumerate(wanted_change.assignments, present):
            replicas.append(check_assignment(image, brokers, factor, index))
            yield
    else:
        replicas = yield from _place(image, range(present, wanted_change.count), factor, topic.topic_id)
    return topic, (yield from _new_partitions(image, present, replicas))
