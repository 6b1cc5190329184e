"""A query with `klamm.sink.semantics=exactly-once` on an Apache Kafka with an authorizer and `transaction.version` 1,
behind a proxy that loses answers.

The first transaction protocol adds partitions and groups to a transaction with requests of their own.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from tests.support.dropping_proxy import DroppingProxy
from tests.support.exactly_once_query import Query, committed
from tests.support.kafka_broker import ApacheKafka, KafkaUnavailable
from tests.support.spark_topics import Topic, create_topic
from tests.support.stopping_sink import POINTS
from tests.support.toolchains import toolchain_is_missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]


IS_MATRIX = "KLAMM_EXACTLY_ONCE_MATRIX" in os.environ
APIS = {"AddPartitionsToTxn": 24, "AddOffsetsToTxn": 25, "EndTxn": 26}
if IS_MATRIX:
    APIS |= {"Produce": 0, "OffsetFetch": 9, "InitProducerId": 22, "TxnOffsetCommit": 28}


@pytest.fixture(scope="module")
def proxy() -> Iterator[DroppingProxy]:
    """The proxy in front of the broker. A resource without ACLs is open to all, who are User:ANONYMOUS here."""
    with DroppingProxy() as proxy:
        settings = {
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
        }
        try:
            kafka = ApacheKafka(settings, features={"transaction.version": 1})
            proxy.target = lambda: kafka.bootstrap_servers
            with kafka:
                yield proxy
        except KafkaUnavailable as error:
            toolchain_is_missing("java", str(error))


@pytest.fixture
def topic(proxy: DroppingProxy) -> Topic:
    """A topic there."""
    return make_topic(proxy)


def make_topic(proxy: DroppingProxy) -> Topic:
    """Creates a topic."""
    bootstrap_servers = f"127.0.0.1:{proxy.port}"
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    return create_topic(admin, bootstrap_servers, f"spark-{uuid.uuid4().hex[:12]}", 3, {})


class Acls:
    """The ACLs of one resource, which are the only ones of the cluster."""

    def __init__(self, topic: Topic) -> None:
        self._admin = topic.admin

    def allow(self, kind: ResourceType, prefix: str, *operations: AclOperation) -> None:
        """Allows everybody these operations, and no others."""
        # The first entry closes the resource to all others.
        entries = [(AclOperation.ALL, "User:owner"), *((each, "User:*") for each in operations)]
        bindings = [
            AclBinding(kind, prefix, ResourcePatternType.PREFIXED, user, "*", operation, AclPermissionType.ALLOW)
            for operation, user in entries
        ]
        for created in self._admin.create_acls(bindings).values():
            created.result(30)

    def remove(self) -> None:
        """Removes all ACLs."""
        # None stands for all.
        everything = AclBindingFilter(
            ResourceType.ANY,
            None,  # type: ignore[arg-type]
            ResourcePatternType.ANY,
            None,  # type: ignore[arg-type]
            None,  # type: ignore[arg-type]
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        for removed in self._admin.delete_acls([everything]).values():
            removed.result(30)


@pytest.fixture
def acls(topic: Topic) -> Iterator[Acls]:
    """The ACLs of the cluster, none yet."""
    acls = Acls(topic)
    yield acls
    acls.remove()


@pytest.mark.parametrize(
    ("kind", "allowed", "message"),
    [
        (
            ResourceType.TRANSACTIONAL_ID,
            (AclOperation.DESCRIBE,),
            r"needs WRITE and DESCRIBE on the transactional id klamm\.sink\.",
        ),
        (ResourceType.GROUP, (AclOperation.DESCRIBE,), r"needs READ on the group klamm\.sink\."),
        (ResourceType.GROUP, (), r"needs READ on the group klamm\.sink\."),
        (ResourceType.TOPIC, (AclOperation.DESCRIBE, AclOperation.READ), "needs WRITE on the topics"),
        (ResourceType.TOPIC, (AclOperation.DESCRIBE, AclOperation.WRITE), "READ on the topic of its marker"),
    ],
)
def test_a_missing_permission(  # noqa: PLR0917
    spark: SparkSession,
    topic: Topic,
    acls: Acls,
    tmp_path: Path,
    kind: ResourceType,
    allowed: tuple[AclOperation, ...],
    message: str,
) -> None:
    """The query fails with the permission that it needs, and writes nothing; it goes on when it has it."""
    query = Query(spark, topic, tmp_path)
    query.add()
    query.run()
    query.add()
    acls.allow(kind, topic.name if kind == ResourceType.TOPIC else "klamm.sink.", *allowed)
    with pytest.raises(Exception, match=message):
        query.run()
    acls.remove()
    assert committed(topic) == query.written(1)

    query.run()

    assert committed(topic) == query.written(2)


def test_only_the_topic_of_the_marker_must_be_readable(
    spark: SparkSession, proxy: DroppingProxy, topic: Topic, acls: Acls, tmp_path: Path
) -> None:
    """A query that writes several topics needs WRITE on all of them, and READ only on the topic of its marker."""
    other = make_topic(proxy)
    query = Query(spark, topic, tmp_path, [other])
    query.add()
    acls.allow(ResourceType.TOPIC, topic.name, AclOperation.READ, AclOperation.WRITE)
    acls.allow(ResourceType.TOPIC, other.name, AclOperation.WRITE)

    query.run()

    acls.remove()
    assert query.committed_in_each() == query.written_to_each(1)


def test_a_repetition_without_the_permission_to_read_the_retention(
    spark: SparkSession, topic: Topic, acls: Acls, tmp_path: Path
) -> None:
    """The sink can't find out how long the broker keeps the marker. A late repetition of micro-batch 0 without a marker
    stops, names the permission, and goes on when it has it."""
    query = Query(spark, topic, tmp_path)
    query.add()
    query.points.stop_at("decided", 0)
    with pytest.raises(Exception):  # noqa: B017, PT011 (Spark names a process that ended in several ways)
        query.run()
    query.points.revive()
    query.plan_earlier(0, minutes=5)
    kept = (AclOperation.ALTER, AclOperation.CLUSTER_ACTION, AclOperation.CREATE, AclOperation.DESCRIBE)
    acls.allow(ResourceType.BROKER, "kafka-cluster", *kept)
    with pytest.raises(Exception, match=r"MarkerMissing.*5 min ago.*DESCRIBE_CONFIGS on the cluster"):
        query.run()
    assert committed(topic) == query.written(0)
    acls.remove()

    query.run()

    assert committed(topic) == query.written(1)


@pytest.mark.parametrize("point", ["first batch sent", "marker moved", "committed"])
def test_the_first_transaction_protocol(spark: SparkSession, topic: Topic, tmp_path: Path, point: str) -> None:
    """A driver dies within a transaction, or right after it: each row comes once."""
    query = Query(spark, topic, tmp_path)
    query.add()
    query.add()
    query.points.stop_at(point, 1)
    with pytest.raises(Exception):  # noqa: B017, PT011 (Spark names a process that ended in several ways)
        query.run()
    assert committed(topic) == query.written(1 + (POINTS.index(point) >= POINTS.index("committed")))
    query.points.revive()
    query.add()

    query.run()

    assert committed(topic) == query.written(3)


@pytest.mark.parametrize("api", APIS)
def test_a_lost_answer(spark: SparkSession, topic: Topic, proxy: DroppingProxy, tmp_path: Path, api: str) -> None:
    """If an answer is lost, the sink repeats the request within the commit, and the query continues."""
    query = Query(spark, topic, tmp_path)
    query.add()
    query.run()
    query.add()
    proxy.lose(APIS[api], "answer")

    query.run()

    assert proxy.lost == 1
    assert committed(topic) == query.written(2)
