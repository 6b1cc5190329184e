"""A group and its offsets at one moment, read from the cluster."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from confluent_kafka.admin import AdminClient

from klamm.client.cluster import Cluster
from klamm.client.config import ClientConfig
from klamm.client.errors import AuthenticationFailed, ClientConfigError, UnsupportedByBroker
from klamm.client.group_description import GroupDescriptions
from klamm.insight.cluster_access import TIMEOUT_S, ClusterAccess
from klamm.insight.errors import ClusterError
from klamm.insight.group.group_offsets import commits, end_offsets, lag
from klamm.insight.group.group_picture import GroupPicture, picture_of
from klamm.insight.security_settings import security_settings
from klamm.insight.words import PartitionKey, lag_words
from klamm.protocol.errors import ErrorCode

__all__ = ["GroupObserver", "Snapshot", "raw_cluster"]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A group, its committed offsets and the ends of its partitions at one moment."""

    at_ms: int
    picture: GroupPicture
    committed: Mapping[PartitionKey, int]
    ends: Mapping[PartitionKey, tuple[int, int]]
    """Log start offset and high watermark."""
    partition_counts: Mapping[str, int]
    """The number of partitions of every topic of the cluster."""
    applications: Mapping[PartitionKey, str] = field(default_factory=dict)
    """Ids of the Spark applications, for the partitions where a Spark query committed."""
    finished_beyond: Mapping[PartitionKey, int] = field(default_factory=dict)
    """How many records beyond the committed offset are finished, for the partitions where a worker says so."""

    def lag(self, key: PartitionKey) -> int | None:
        """Returns the number of records that the group has left to read in a partition.

        Returns None without a commit, but 0 if the partition has no records.
        """
        start, end = self.ends.get(key, (None, None))
        return lag(self.committed.get(key), start, end)

    def done(self, key: PartitionKey) -> int | None:
        """Returns the committed offset plus the number of records that are finished beyond it.

        Returns None without a commit.
        """
        committed = self.committed.get(key)
        return None if committed is None else committed + self.finished_beyond.get(key, 0)

    @property
    def partitions(self) -> list[PartitionKey]:
        """All partitions that are assigned, in the target or committed, and all other partitions of their topics and of
        the subscribed topics. A partition without a commit counts as unknown lag."""
        known = self.picture.partitions | self.committed.keys()
        topics = {topic for topic, _ in known}.union(*(member.topics or () for member in self.picture.members))
        every = {(topic, index) for topic in topics for index in range(self.partition_counts.get(topic, 0))}
        return sorted(known | every)

    @property
    def unavailable(self) -> frozenset[PartitionKey]:
        """The partitions with a commit whose ends can't be read: they have no leader, or do not exist any more."""
        return frozenset(self.committed.keys() - self.ends.keys())

    @property
    def lag_in_words(self) -> str | None:
        """The lag over all partitions, and how many have no commit or no end; None if there are no partitions."""
        return lag_words(map(self.lag, self.partitions), len(self.unavailable)) if self.partitions else None


class GroupObserver:
    """Reads one group from its cluster, any number of times. Methods raise KlammError."""

    def __init__(self, access: ClusterAccess, group: str, *, patience_s: float = TIMEOUT_S) -> None:
        """Connects to the cluster. `patience_s`: how long to retry a coordinator that fails or is loading."""
        self._access = access
        self._group = group
        self._admin: AdminClient | None = access.admin_client()
        cluster = raw_cluster(access, patience_s)
        self._descriptions = GroupDescriptions(cluster, group) if cluster is not None else None

    def close(self) -> None:
        """Closes the connections of the raw client."""
        if self._descriptions is not None:
            self._descriptions.close()

    def describe(self) -> GroupPicture | None:
        """Returns the group; None if it does not exist."""
        group = self._group
        if self._descriptions is not None:
            try:
                described = self._descriptions.describe()
                return picture_of(described) if described is not None else None
            except (AuthenticationFailed, UnsupportedByBroker):
                # librdkafka has connected with the same properties, so it describes the group, with fewer details.
                self._descriptions.close()
                self._descriptions = None
        admin = self._connected_admin()
        try:
            found = self._access.result_of(admin.describe_consumer_groups([group])[group])
        except ClusterError as error:
            if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
                return None
            self._admin = None
            raise
        picture = picture_of(found)
        return None if picture.state == "dead" else picture

    def look(self) -> Snapshot | None:
        """Returns the group with its offsets; None if it does not exist."""
        picture = self.describe()
        if picture is None:
            return None
        admin = self._connected_admin()
        try:
            committed = commits(self._access, admin, self._group)
            counts = self._partition_counts(admin)
            snapshot = Snapshot(
                0, picture, committed.offsets, {}, counts, committed.applications, committed.finished_beyond
            )
            ends = end_offsets(self._access, admin, snapshot.partitions)
        except ClusterError:
            self._admin = None
            raise
        return replace(snapshot, at_ms=time.time_ns() // 1_000_000, ends=ends)

    def _connected_admin(self) -> AdminClient:
        """Returns librdkafka's client; a new one after an error.

        librdkafka 2.16 loses a coordinator request whose connection ends while the client connects again to its
        bootstrap servers. All later requests to this coordinator wait behind the lost one until they time out.
        """
        if self._admin is None:
            self._admin = self._access.admin_client()
        return self._admin

    def _partition_counts(self, admin: AdminClient) -> dict[str, int]:
        topics = self._access.translate(lambda: admin.list_topics(timeout=TIMEOUT_S)).topics
        return {name: len(topic.partitions) for name, topic in topics.items()}


def raw_cluster(access: ClusterAccess, patience_s: float = TIMEOUT_S) -> Cluster | None:
    """Returns the raw client, which reads more details than librdkafka; None if it doesn't support the access's
    security properties."""
    timeout = str(int(patience_s * 1000))
    try:
        config = ClientConfig.from_mapping(
            {
                "bootstrap.servers": access.bootstrap_servers,
                "request.timeout.ms": timeout,
                "default.api.timeout.ms": timeout,
                **security_settings(access.properties),
            }
        )
    except ClientConfigError:
        return None
    return Cluster(config)
