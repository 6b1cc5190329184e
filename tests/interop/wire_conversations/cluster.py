"""Conversations about the broker and the cluster: ApiVersions, DescribeCluster, FindCoordinator, InitProducerId,
DescribeLogDirs."""

from __future__ import annotations

from tests.interop.wire_conversations.talk import Talk, conversation

from klamm.protocol.api import ApiKey
from klamm.protocol.records import encode_batch
from klamm.protocol.schema.api_versions_request import ApiVersionsRequest
from klamm.protocol.schema.describe_cluster_request import DescribeClusterRequest
from klamm.protocol.schema.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.init_producer_id_request import InitProducerIdRequest


@conversation(ApiKey.API_VERSIONS)
def api_versions(talk: Talk) -> None:
    """Requests the versions of the APIs."""
    talk.ask(ApiVersionsRequest(client_software_name="wire", client_software_version="1"))


@conversation(ApiKey.API_VERSIONS, since=3)
def api_versions_for_odd_clients(talk: Talk) -> None:
    """Requests the versions of the APIs with invalid names and versions of the client software."""
    for name, version in (("", "1"), ("wire", ""), ("wire", "-"), ("-wire", "1"), ("w i", "1"), ("wire", "ä")):
        talk.ask(ApiVersionsRequest(client_software_name=name, client_software_version=version))


@conversation(ApiKey.DESCRIBE_CLUSTER)
def describe_cluster(talk: Talk) -> None:
    """Describes the cluster with its authorized operations, and with each endpoint type."""
    talk.ask(DescribeClusterRequest())
    talk.ask(DescribeClusterRequest(include_cluster_authorized_operations=True, include_fenced_brokers=True))
    talk.ask(DescribeClusterRequest(endpoint_type=2))
    talk.ask(DescribeClusterRequest(endpoint_type=0))
    talk.ask(DescribeClusterRequest(endpoint_type=3))


@conversation(ApiKey.FIND_COORDINATOR)
def find_group_coordinator(talk: Talk) -> None:
    """Finds the coordinators of one group, of several groups, of none, of an empty name, and of a group twice."""
    one, other = talk.name("a"), talk.name("b")
    talk.ask(FindCoordinatorRequest(key=one, coordinator_keys=[one]))
    talk.ask(FindCoordinatorRequest(key="", coordinator_keys=[""]))
    talk.ask(FindCoordinatorRequest(key=other, coordinator_keys=[other, one, "", one]))
    if talk.version >= 4:
        talk.ask(FindCoordinatorRequest(coordinator_keys=[]))


@conversation(ApiKey.FIND_COORDINATOR, since=1)
def find_unknown_coordinator(talk: Talk) -> None:
    """Finds the coordinator of a key type that doesn't exist."""
    talk.ask(FindCoordinatorRequest(key="k", coordinator_keys=["k"], key_type=3))


@conversation(ApiKey.FIND_COORDINATOR, since=1)
def find_share_coordinator(talk: Talk) -> None:
    """Finds the coordinators of share groups, whose keys have a different form."""
    for key in ("group", "group:AAAAAAAAAAAAAAAAAAAAAQ:0"):
        talk.ask(FindCoordinatorRequest(key=key, coordinator_keys=[key], key_type=2))


@conversation(ApiKey.FIND_COORDINATOR, since=1)
def find_transaction_coordinator(talk: Talk) -> None:
    """Finds the coordinator of a transactional id."""
    talk.ask(FindCoordinatorRequest(key="t", coordinator_keys=["t"], key_type=1))


@conversation(ApiKey.INIT_PRODUCER_ID)
def init_producer_id(talk: Talk) -> None:
    """Requests producer ids without a transactional id, for a new producer and with a previous id and epoch."""
    talk.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0))
    talk.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1))
    talk.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1))
    talk.ask(InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1000))
    if talk.version >= 3:
        for producer_id, epoch in ((5, 3), (5, -1), (-1, 3), (5, 32767)):
            talk.ask(InitProducerIdRequest(transactional_id=None, producer_id=producer_id, producer_epoch=epoch))


@conversation(ApiKey.DESCRIBE_LOG_DIRS)
def describe_log_dirs(talk: Talk) -> None:
    """Describes the log directories of all partitions, of some, and of partitions that don't exist."""
    topic = talk.topic("a", 3)
    talk.append(topic, encode_batch([(1, b"k", b"v", ())]), index=1)
    talk.ask(DescribeLogDirsRequest(topics=None))
    talk.ask(DescribeLogDirsRequest(topics=[]))
    wanted = [
        DescribableLogDirTopic(topic=topic.name, partitions=[1, 2, 9]),
        DescribableLogDirTopic(topic=talk.name("absent"), partitions=[0]),
        DescribableLogDirTopic(topic=topic.name, partitions=[]),
    ]
    talk.ask(DescribeLogDirsRequest(topics=wanted))
