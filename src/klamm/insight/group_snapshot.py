"""A group and its offsets at one moment, as the cluster tells them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from klamm.client.cluster import Cluster
from klamm.client.config import ClientConfig
from klamm.client.errors import AuthenticationFailed, ClientConfigError, UnsupportedByBroker
from klamm.client.group_description import GroupDescriptions
from klamm.insight.cluster_access import TIMEOUT_S, ClusterAccess
from klamm.insight.errors import ClusterError
from klamm.insight.group_offsets import commits, end_offsets, lag
from klamm.insight.group_picture import GroupPicture, picture_of
from klamm.insight.security_settings import security_settings
from klamm.insight.words import PartitionKey, lag_words

__all__ = ["GroupObserver", "Snapshot", "raw_cluster"]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What there was at one moment."""

    at_ms: int
    picture: GroupPicture
    committed: Mapping[PartitionKey, int]
    ends: Mapping[PartitionKey, tuple[int, int]]
    """Log start offset and high watermark."""
    partition_counts: Mapping[str, int]
    """Of every topic of the cluster."""
    applications: Mapping[PartitionKey, str] = field(default_factory=dict)
    """The Spark application whose query committed, where one did."""

    def lag(self, key: PartitionKey) -> int | None:
        """Records that the group has still to read of a partition; None without a commit."""
        start, end = self.ends.get(key, (None, None))
        return lag(self.committed.get(key), start, end)

    @property
    def partitions(self) -> list[PartitionKey]:
        """Every partition that somebody has, is to have or has committed, and the others of these topics and of those
        that members subscribe to: what nobody has committed counts as lag that is not known."""
        known = self.picture.partitions | self.committed.keys()
        topics = {topic for topic, _ in known}.union(*(member.topics or () for member in self.picture.members))
        every = {(topic, index) for topic in topics for index in range(self.partition_counts.get(topic, 0))}
        return sorted(known | every)

    @property
    def lag_in_words(self) -> str | None:
        """The lag over all partitions, and how many have no commit; None where there are no partitions."""
        return lag_words(map(self.lag, self.partitions)) if self.partitions else None


class GroupObserver:
    """Looks at one group as often as it is asked. Methods raise KlammError."""

    def __init__(self, access: ClusterAccess, group: str, *, patience_s: float = TIMEOUT_S) -> None:
        """`patience_s`: how long a coordinator that doesn't answer, or is still loading, is asked again."""
        self._access = access
        self._group = group
        self._admin = access.admin_client()
        cluster = raw_cluster(access, patience_s)
        self._descriptions = GroupDescriptions(cluster, group) if cluster is not None else None

    def close(self) -> None:
        """Hangs up."""
        if self._descriptions is not None:
            self._descriptions.close()

    def describe(self) -> GroupPicture | None:
        """The group; None where there is none."""
        group = self._group
        if self._descriptions is not None:
            try:
                described = self._descriptions.describe()
                return picture_of(described) if described is not None else None
            except (AuthenticationFailed, UnsupportedByBroker):
                # librdkafka has got in by the same properties: then it is to say what it can.
                self._descriptions.close()
                self._descriptions = None
        try:
            found = self._access.result_of(self._admin.describe_consumer_groups([group])[group])
        except ClusterError as error:
            if "GROUP_ID_NOT_FOUND" in str(error):
                return None
            raise
        picture = picture_of(found)
        return None if picture.state == "dead" else picture

    def look(self) -> Snapshot | None:
        """The group with its offsets; None where there is no such group."""
        picture = self.describe()
        if picture is None:
            return None
        committed = commits(self._access, self._admin, self._group)
        counts = self._partition_counts()
        snapshot = Snapshot(0, picture, committed.offsets, {}, counts, committed.applications)
        ends = end_offsets(self._access, self._admin, snapshot.partitions)
        return replace(snapshot, at_ms=time.time_ns() // 1_000_000, ends=ends)

    def _partition_counts(self) -> dict[str, int]:
        topics = self._access.translate(lambda: self._admin.list_topics(timeout=TIMEOUT_S)).topics
        return {name: len(topic.partitions) for name, topic in topics.items()}


def raw_cluster(access: ClusterAccess, patience_s: float = TIMEOUT_S) -> Cluster | None:
    """The raw client, which tells more than librdkafka; None where the cluster wants what it doesn't speak."""
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
