"""The planner does not take the shorter log of an old leader, which still answers, for lost records."""

from __future__ import annotations

from contextlib import closing

from tests.integration.spark.source.tasks.test_old_leader import (
    NEW,
    NEW_END,
    OLD,
    OLD_END,
    metadata,
    offsets_answer,
)
from tests.support.scripted_broker import ScriptedBroker

from klamm.client.cluster import Cluster
from klamm.protocol.schema.list_offsets_request import ListOffsetsRequest
from klamm.protocol.schema.metadata_request import MetadataRequest
from klamm.protocol.types import Offset, PartitionIndex, TopicPartition
from klamm.spark.source.options.options import SourceOptions
from klamm.spark.source.planning.log_offsets import SubscribedOffsets, planner_for

PLACE = TopicPartition("t", PartitionIndex(0))


def test_ends_before_the_position_are_asked_of_the_leader_that_other_brokers_name() -> None:
    """After a restart, the query knows no leader. The first broker is an old leader that is cut off from the others: it
    names itself as the leader, and its log ends before the query's position. The planner asks other brokers for the
    leader, and finds the end of the log there."""
    with ScriptedBroker() as old, ScriptedBroker() as new:
        old.on(MetadataRequest, lambda _: metadata((old, new), 1, OLD))
        new.on(MetadataRequest, lambda _: metadata((old, new), 2, NEW))
        old.on(ListOffsetsRequest, offsets_answer(OLD, OLD_END))
        new.on(ListOffsetsRequest, offsets_answer(NEW, NEW_END))
        options = SourceOptions.for_stream(
            {
                "kafka.bootstrap.servers": f"{old.address[0]}:{old.address[1]}",
                "assign": '{"t":[0]}',
                "fetchOffset.retryIntervalMs": "0",
            }
        )
        with closing(Cluster(options.client)) as cluster:
            planner = planner_for(SubscribedOffsets(cluster, options.subscription), options)

            assert planner.latest_since({PLACE: Offset(OLD_END + 5)}) == {PLACE: NEW_END}
