"""The replicas of partitions when all reassignments have ended."""

from __future__ import annotations

from tests.unit.insight.canned_cluster import CannedCluster

from klamm.insight.cluster.lasting_replicas import lasting_replicas
from klamm.insight.cluster.moving_partitions import Moving
from klamm.protocol.message import Message
from klamm.protocol.schema.describe_topic_partitions_request import DescribeTopicPartitionsRequest

KEY = ("orders", 0)


def test_a_partition_that_moves_has_the_replicas_that_it_moves_to() -> None:
    """Removed replicas are left out, and other partitions have the replicas of the metadata."""
    moving = Moving("orders", 0, (3, 2, 1), adding=(3,), removing=(1,))
    cluster = CannedCluster([1, 2, 3], {"orders": [(3, 2, 1), (1, 2)]}, moving=[moving])
    lasting = lasting_replicas(cluster, None)
    assert lasting.replicas == {KEY: (3, 2), ("orders", 1): (1, 2)}
    assert lasting.moving == {KEY}


def test_a_broker_that_does_not_know_of_the_move_yet_does_not_hide_it() -> None:
    """The controller names a replica that is added, and the metadata of another broker do not have it yet."""
    moving = Moving("orders", 0, (1, 2, 3), adding=(3,), removing=())
    cluster = CannedCluster([1, 2, 3], {"orders": [(1, 2)]}, moving=[moving])
    assert lasting_replicas(cluster, ["orders"]).replicas == {KEY: (1, 2, 3)}


def test_a_move_that_begins_or_ends_meanwhile_adds_no_replica() -> None:
    """The metadata are of a moment at which the partition moves, and one of the lists of reassignments is not."""
    moving = Moving("orders", 0, (3, 2, 1), adding=(3,), removing=(1,))

    class Changing(CannedCluster):
        def _answer(self, request: Message) -> Message:
            reply = super()._answer(request)
            if isinstance(request, DescribeTopicPartitionsRequest):
                self.moving = {} if self.moving else {KEY: moving}
            return reply

    for before in ([], [moving]):
        cluster = Changing([1, 2, 3], {"orders": [(3, 2, 1)]}, moving=before)
        assert lasting_replicas(cluster, None).replicas == {KEY: (3, 2)}
