"""Tests `klamm.group.mode=member`: one of several queries owns the group, and the next one takes over."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.spark_topics import Topic

from klamm.client.cluster import Cluster
from klamm.client.config import ClientConfig
from klamm.client.group_description import ClassicDescription, GroupDescriptions
from klamm.client.group_membership import ClassicMember, GroupProtocol
from klamm.spark.source.group.exclusive_assignor import owner_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

_PATIENCE_S = 90.0
# Far longer than the patience: a takeover within the patience proves that the previous owner left the group.
_SESSION_MS = 600_000


class Queries:
    """Queries of one group, each with its own checkpoint, and the values that each query has read."""

    def __init__(self, spark: SparkSession, topic: Topic, folder: Path) -> None:
        self.spark = spark
        self.topic = topic
        self.folder = folder
        self.group = f"group-of-{topic.name}"
        self.read: dict[str, list[int]] = {}
        self.config = ClientConfig.from_mapping({"bootstrap.servers": topic.bootstrap_servers})

    def start(self, name: str, *, available_now: bool = False) -> StreamingQuery:
        values = self.read.setdefault(name, [])

        def sink(frame: DataFrame, batch_id: int) -> None:
            values.extend(int(row[0]) for row in frame.selectExpr("string(value)").collect())

        options = self.topic.options(
            startingOffsets="committed",
            kafka_group_id=self.group,
            klamm_group_mode="member",
            kafka_client_id=name,
            kafka_session_timeout_ms=_SESSION_MS,
            kafka_heartbeat_interval_ms=300,
        )
        frame = self.spark.readStream.format("klamm").options(**options).load()
        writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(self.folder / name))
        return (writer.trigger(availableNow=True) if available_now else writer).start()

    def members(self) -> dict[str, tuple[str, bool]]:
        """Returns, by client id, the member id of each member and whether the member owns the group."""
        with closing(GroupDescriptions(Cluster(self.config), self.group)) as descriptions:
            described = descriptions.describe()
        if not isinstance(described, ClassicDescription):
            return {}
        return {
            member.client_id: (member.member_id, owner_in(bytes(member.member_assignment)) == member.member_id)
            for member in described.members
        }

    def owns(self, name: str) -> bool:
        """Returns whether the query owns the group."""
        return self.members().get(name, ("", False))[1]

    def put_out(self, name: str) -> None:
        """Removes the query from the group, as an administrator does."""
        member = ClassicMember(self.config, self.group, GroupProtocol("consumer", "any", 10_000, 10_000))
        member.member_id = self.members()[name][0]
        member.leave("put out", 10_000)
        member.close()

    def eventually(self, condition: Callable[[], Any]) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, (self.members(), self.read)
            time.sleep(0.05)


@pytest.fixture
def queries(spark: SparkSession, topic: Topic, tmp_path: Path) -> Queries:
    return Queries(spark, topic, tmp_path)


def test_the_next_query_takes_over_when_one_stops(queries: Queries) -> None:
    """A waiting query takes over at the committed offsets when the owner stops; a waiting query can be stopped too."""
    queries.topic.produce(range(10))
    first = queries.start("first")
    first.processAllAvailable()
    second, third = queries.start("second"), queries.start("third")
    try:
        queries.eventually(lambda: len(queries.members()) == 3)
        assert second.isActive
        second.stop()
        queries.eventually(lambda: len(queries.members()) == 2)

        first.stop()
        queries.eventually(lambda: queries.owns("third"))
        queries.topic.produce(range(10, 20))
        third.processAllAvailable()
    finally:
        third.stop()

    assert {name: sorted(values) for name, values in queries.read.items()} == {
        "first": list(range(10)),
        "second": [],
        "third": list(range(10, 20)),
    }
    queries.eventually(lambda: queries.members() == {})
    assert queries.topic.committed(queries.group) == queries.topic.ends()


def test_a_query_that_runs_to_its_end_leaves_the_group(queries: Queries) -> None:
    """A query with AvailableNow leaves the group at its end, so that the next query need not wait for a timeout."""
    for name, values in (("first", range(10)), ("second", range(10, 20))):
        queries.topic.produce(values)
        query = queries.start(name, available_now=True)
        try:
            assert query.awaitTermination(int(_PATIENCE_S)), queries.members()
        finally:
            query.stop()
        assert sorted(queries.read[name]) == list(values)
        assert queries.topic.committed(queries.group) == queries.topic.ends()

    queries.eventually(lambda: queries.members() == {})


def test_a_fenced_query_stops_and_says_who_took_over(queries: Queries) -> None:
    """A fenced query stops with an error that names the new owner, and reads no more records."""
    queries.topic.produce(range(10))
    first = queries.start("first")
    first.processAllAvailable()
    second = queries.start("second")
    try:
        queries.eventually(lambda: len(queries.members()) == 2)
        queries.put_out("first")
        with pytest.raises(Exception, match=r"second at .* has taken over \(member second-"):
            first.awaitTermination()
        queries.topic.produce(range(10, 20))
        second.processAllAvailable()
    finally:
        second.stop()

    assert sorted(queries.read["first"]) == list(range(10))
    assert sorted(queries.read["second"]) == list(range(10, 20))
