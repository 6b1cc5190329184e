"""Conversations about the administration of a single node without an authorizer: ACLs, users, quotas, delegation
tokens, elections, reassignments, log directories, features, the quorum."""

from __future__ import annotations

from tests.interop.wire_conversations.talk import Talk, conversation

from klamm.protocol.api import ApiKey
from klamm.protocol.schema import (
    alter_client_quotas_request,
    describe_quorum_request,
)
from klamm.protocol.schema.add_raft_voter_request import AddRaftVoterRequest
from klamm.protocol.schema.add_raft_voter_request import Listener as VoterListener
from klamm.protocol.schema.alter_client_quotas_request import AlterClientQuotasRequest, OpData
from klamm.protocol.schema.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from klamm.protocol.schema.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from klamm.protocol.schema.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from klamm.protocol.schema.create_acls_request import AclCreation, CreateAclsRequest
from klamm.protocol.schema.create_delegation_token_request import CreatableRenewers, CreateDelegationTokenRequest
from klamm.protocol.schema.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from klamm.protocol.schema.describe_acls_request import DescribeAclsRequest
from klamm.protocol.schema.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest
from klamm.protocol.schema.describe_delegation_token_request import DescribeDelegationTokenRequest
from klamm.protocol.schema.describe_quorum_request import DescribeQuorumRequest
from klamm.protocol.schema.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from klamm.protocol.schema.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from klamm.protocol.schema.expire_delegation_token_request import ExpireDelegationTokenRequest
from klamm.protocol.schema.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from klamm.protocol.schema.remove_raft_voter_request import RemoveRaftVoterRequest
from klamm.protocol.schema.renew_delegation_token_request import RenewDelegationTokenRequest
from klamm.protocol.schema.sasl_authenticate_request import SaslAuthenticateRequest
from klamm.protocol.schema.sasl_handshake_request import SaslHandshakeRequest
from klamm.protocol.schema.unregister_broker_request import UnregisterBrokerRequest
from klamm.protocol.schema.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest

ANY, TOPIC, LITERAL, READ, ALLOW = 1, 2, 3, 3, 3
"""Codes in ACL requests: any value of a field; a topic; a literal name; the operation read; the permission allow."""

EXACTLY, BY_DEFAULT, ANY_NAME = 0, 1, 2
"""How a quota filter matches a name."""


# -- security


@conversation(ApiKey.SASL_HANDSHAKE)
def sasl_handshake(talk: Talk) -> None:
    """Sends SASL handshakes to a listener without SASL."""
    for mechanism in ("PLAIN", "", "no-such-mechanism"):
        talk.ask(SaslHandshakeRequest(mechanism=mechanism))


@conversation(ApiKey.SASL_AUTHENTICATE)
def sasl_authenticate(talk: Talk) -> None:
    """Authenticates at a listener without SASL."""
    talk.ask(SaslAuthenticateRequest(auth_bytes=b"\0user\0password"))


@conversation(ApiKey.DESCRIBE_ACLS)
def describe_acls(talk: Talk) -> None:
    """Describes all ACLs and those of one topic, and sends invalid filters."""
    everything = DescribeAclsRequest(
        resource_type_filter=ANY,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    talk.ask(everything)
    one = DescribeAclsRequest(
        resource_type_filter=TOPIC,
        resource_name_filter="orders",
        principal_filter="User:amalia",
        host_filter="*",
        operation=READ,
        permission_type=ALLOW,
    )
    talk.ask(one)
    for name, code in (
        ("resource_type_filter", 0),
        ("resource_type_filter", 77),
        ("pattern_type_filter", 0),
        ("operation", 0),
        ("permission_type", 99),
    ):
        broken = DescribeAclsRequest(
            resource_type_filter=ANY,
            resource_name_filter=None,
            pattern_type_filter=ANY,
            principal_filter=None,
            host_filter=None,
            operation=ANY,
            permission_type=ANY,
        )
        setattr(broken, name, code)
        talk.ask(broken)


def _creation(**changes: object) -> AclCreation:
    creation = AclCreation(
        resource_type=TOPIC,
        resource_name="orders",
        resource_pattern_type=LITERAL,
        principal="User:amalia",
        host="*",
        operation=READ,
        permission_type=ALLOW,
    )
    for name, value in changes.items():
        setattr(creation, name, value)
    return creation


@conversation(ApiKey.CREATE_ACLS)
def create_acls(talk: Talk) -> None:
    """Creates no ACL, one ACL and two ACLs, and sends invalid ACLs."""
    talk.ask(CreateAclsRequest(creations=[]))
    talk.ask(CreateAclsRequest(creations=[_creation()]))
    talk.ask(CreateAclsRequest(creations=[_creation(), _creation(principal="amalia")]))
    talk.ask(CreateAclsRequest(creations=[_creation(resource_type=0)]))
    talk.ask(CreateAclsRequest(creations=[_creation(), _creation(permission_type=77)]))


@conversation(ApiKey.DELETE_ACLS)
def delete_acls(talk: Talk) -> None:
    """Deletes ACLs by no filter, one filter and two filters, and sends an invalid filter."""
    every = DeleteAclsFilter(
        resource_type_filter=ANY,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    talk.ask(DeleteAclsRequest(filters=[]))
    talk.ask(DeleteAclsRequest(filters=[every]))
    talk.ask(DeleteAclsRequest(filters=[every, every]))
    talk.ask(DeleteAclsRequest(filters=[DeleteAclsFilter(operation=77)]))


@conversation(ApiKey.CREATE_DELEGATION_TOKEN)
def create_delegation_token(talk: Talk) -> None:
    """Creates delegation tokens on a connection without authentication."""
    talk.ask(CreateDelegationTokenRequest(owner_principal_type=None, owner_principal_name=None))
    renewers = [CreatableRenewers(principal_type="User", principal_name="frieda")]
    talk.ask(
        CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="amalia", renewers=renewers)
    )


@conversation(ApiKey.RENEW_DELEGATION_TOKEN)
def renew_delegation_token(talk: Talk) -> None:
    """Renews a delegation token on a connection without authentication."""
    talk.ask(RenewDelegationTokenRequest(hmac=b"token", renew_period_ms=1000))


@conversation(ApiKey.EXPIRE_DELEGATION_TOKEN)
def expire_delegation_token(talk: Talk) -> None:
    """Expires a delegation token on a connection without authentication."""
    talk.ask(ExpireDelegationTokenRequest(hmac=b"token", expiry_time_period_ms=1000))


@conversation(ApiKey.DESCRIBE_DELEGATION_TOKEN)
def describe_delegation_token(talk: Talk) -> None:
    """Describes delegation tokens on a connection without authentication."""
    talk.ask(DescribeDelegationTokenRequest(owners=None))
    talk.ask(DescribeDelegationTokenRequest(owners=[]))


@conversation(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
def describe_user_scram_credentials(talk: Talk) -> None:
    """Describes all users, several users, a user twice, and a user without a name."""
    talk.ask(DescribeUserScramCredentialsRequest(users=None))
    talk.ask(DescribeUserScramCredentialsRequest(users=[]))
    talk.ask(DescribeUserScramCredentialsRequest(users=[UserName(name="amalia"), UserName(name="frieda")]))
    talk.ask(
        DescribeUserScramCredentialsRequest(
            users=[UserName(name="amalia"), UserName(name="frieda"), UserName(name="amalia")]
        )
    )
    talk.ask(DescribeUserScramCredentialsRequest(users=[UserName(name="")]))


@conversation(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
def alter_user_scram_credentials(talk: Talk) -> None:
    """Deletes credentials that don't exist, sends invalid credentials, then sets and deletes a valid credential."""
    talk.ask(AlterUserScramCredentialsRequest())
    deletions = [ScramCredentialDeletion(name="amalia", mechanism=1), ScramCredentialDeletion(name="", mechanism=1)]
    talk.ask(AlterUserScramCredentialsRequest(deletions=deletions))
    talk.ask(AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(name="amalia", mechanism=7)]))
    twice = [ScramCredentialDeletion(name="amalia", mechanism=1)] * 2
    talk.ask(AlterUserScramCredentialsRequest(deletions=twice))

    def credential(**changes: object) -> ScramCredentialUpsertion:
        made = ScramCredentialUpsertion(
            name="olga", mechanism=1, iterations=4096, salt=b"salt", salted_password=b"p" * 32
        )
        for name, value in changes.items():
            setattr(made, name, value)
        return made

    talk.ask(AlterUserScramCredentialsRequest(upsertions=[credential(), credential(mechanism=2)]))
    talk.ask(AlterUserScramCredentialsRequest(upsertions=[credential(mechanism=7), credential()]))
    for changes in ({"mechanism": 0}, {"mechanism": 7}, {"iterations": 1}, {"iterations": 20_000}, {"name": ""}):
        talk.ask(AlterUserScramCredentialsRequest(upsertions=[credential(**changes)]))
    talk.ask(AlterUserScramCredentialsRequest(upsertions=[credential()]))
    talk.ask(AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(name="olga", mechanism=1)]))


# -- quotas


@conversation(ApiKey.DESCRIBE_CLIENT_QUOTAS)
def describe_client_quotas(talk: Talk) -> None:
    """Describes all quotas and quotas of some entities, and sends invalid filters."""
    talk.ask(DescribeClientQuotasRequest(components=[]))
    talk.ask(DescribeClientQuotasRequest(components=[], strict=True))
    for component in (
        ComponentData(entity_type="user", match_type=EXACTLY, match="amalia"),
        ComponentData(entity_type="client-id", match_type=BY_DEFAULT, match=None),
        ComponentData(entity_type="user", match_type=ANY_NAME, match=None),
        ComponentData(entity_type="ip", match_type=EXACTLY, match="127.0.0.1"),
        ComponentData(entity_type="ip", match_type=EXACTLY, match="no address"),
        ComponentData(entity_type="user", match_type=7, match=None),
        ComponentData(entity_type="user", match_type=BY_DEFAULT, match="amalia"),
        ComponentData(entity_type="user", match_type=EXACTLY, match=None),
        ComponentData(entity_type="", match_type=EXACTLY, match="amalia"),
        ComponentData(entity_type="castle", match_type=EXACTLY, match="amalia"),
    ):
        talk.ask(DescribeClientQuotasRequest(components=[component]))
    user = ComponentData(entity_type="user", match_type=EXACTLY, match="amalia")
    ip = ComponentData(entity_type="ip", match_type=EXACTLY, match="127.0.0.1")
    talk.ask(DescribeClientQuotasRequest(components=[user, user]))
    unknown_match = ComponentData(entity_type="user", match_type=7, match=None)
    talk.ask(DescribeClientQuotasRequest(components=[user, unknown_match]))
    talk.ask(DescribeClientQuotasRequest(components=[user, ip]))


@conversation(ApiKey.ALTER_CLIENT_QUOTAS)
def alter_client_quotas(talk: Talk) -> None:
    """Sends no entry, removes quotas that don't exist, validates a new quota, and sends invalid entities, keys, values
    and duplicates."""
    talk.ask(AlterClientQuotasRequest(entries=[]))

    def entry(kind: str, name: str | None, *operations: OpData) -> alter_client_quotas_request.EntryData:
        entity = alter_client_quotas_request.EntityData(entity_type=kind, entity_name=name)
        return alter_client_quotas_request.EntryData(entity=[entity], ops=list(operations))

    remove = OpData(key="producer_byte_rate", value=0.0, remove=True)
    grant = OpData(key="producer_byte_rate", value=1000.0, remove=False)
    talk.ask(AlterClientQuotasRequest(entries=[entry("user", "amalia", remove)]))
    talk.ask(AlterClientQuotasRequest(entries=[entry("user", "amalia", grant)], validate_only=True))
    talk.ask(AlterClientQuotasRequest(entries=[entry("castle", "amalia", grant)], validate_only=True))
    unknown = OpData(key="no_such_quota", value=1.0, remove=False)
    talk.ask(AlterClientQuotasRequest(entries=[entry("user", "amalia", unknown)], validate_only=True))
    no_longer = OpData(key="no_such_quota", value=1.0, remove=True)
    talk.ask(AlterClientQuotasRequest(entries=[entry("user", "amalia", no_longer), entry("user", None, remove)]))
    talk.ask(AlterClientQuotasRequest(entries=[entry("user", "", remove)]))
    talk.ask(AlterClientQuotasRequest(entries=[entry("ip", "127.0.0.1", remove)]))
    talk.ask(AlterClientQuotasRequest(entries=[entry("user", "amalia", remove), entry("user", "amalia", remove)]))
    talk.ask(AlterClientQuotasRequest(entries=[entry("user", "amalia", remove, remove)]))
    talk.ask(AlterClientQuotasRequest(entries=[alter_client_quotas_request.EntryData(entity=[], ops=[remove])]))
    for kinds in (("user", "ip"), ("user", "user")):
        entities = [
            alter_client_quotas_request.EntityData(entity_type=kind, entity_name=name)
            for kind, name in zip(kinds, ("amalia", "127.0.0.1"), strict=True)
        ]
        talk.ask(
            AlterClientQuotasRequest(entries=[alter_client_quotas_request.EntryData(entity=entities, ops=[remove])])
        )
    for kind, name, key, value in (
        ("user", "amalia", "producer_byte_rate", 0.0),
        ("user", "amalia", "producer_byte_rate", 0.5),
        ("user", "amalia", "consumer_byte_rate", 1e19),
        ("user", "amalia", "connection_creation_rate", 1.0),
        ("client-id", "c", "request_percentage", -1.0),
        ("ip", "127.0.0.1", "connection_creation_rate", 1e10),
        ("ip", "127.0.0.1", "producer_byte_rate", 1.0),
    ):
        bad = OpData(key=key, value=value, remove=False)
        talk.ask(AlterClientQuotasRequest(entries=[entry(kind, name, bad)], validate_only=True))


# -- one node: elections, reassignments, folders, brokers


@conversation(ApiKey.ELECT_LEADERS)
def elect_leaders(talk: Talk) -> None:
    """Elects leaders of all partitions, of some, and of partitions that don't exist, also with an invalid election
    type."""
    topic = talk.topic("a", 2)
    talk.ask(ElectLeadersRequest(topic_partitions=None))
    talk.ask(ElectLeadersRequest(topic_partitions=[]))
    wanted = [
        TopicPartitions(topic=topic.name, partitions=[0, 1, 9]),
        TopicPartitions(topic=talk.name("absent"), partitions=[0]),
        TopicPartitions(topic="", partitions=[0]),
    ]
    talk.ask(ElectLeadersRequest(topic_partitions=wanted))
    talk.ask(ElectLeadersRequest(topic_partitions=[TopicPartitions(topic=topic.name, partitions=[0, 0])]))
    talk.ask(ElectLeadersRequest(topic_partitions=[TopicPartitions(topic=topic.name, partitions=[])]))
    if talk.version >= 1:
        partitions = [TopicPartitions(topic=topic.name, partitions=[0])]
        talk.ask(ElectLeadersRequest(election_type=1, topic_partitions=partitions))
        talk.ask(ElectLeadersRequest(election_type=1, topic_partitions=None))
        talk.ask(ElectLeadersRequest(election_type=7, topic_partitions=partitions))
        talk.ask(ElectLeadersRequest(election_type=7, topic_partitions=[]))


@conversation(ApiKey.ELECT_LEADERS)
def elect_leaders_without_time(talk: Talk) -> None:
    """Elects leaders of all partitions, of some, and of none, with a timeout that is over."""
    topic = talk.topic("a", 2)
    wanted = [TopicPartitions(topic=topic.name, partitions=[0, 1, 9])]
    for timeout_ms in (0, -1):
        talk.ask(ElectLeadersRequest(topic_partitions=wanted, timeout_ms=timeout_ms))
    talk.ask(ElectLeadersRequest(topic_partitions=None, timeout_ms=0))
    talk.ask(ElectLeadersRequest(topic_partitions=[], timeout_ms=0))
    if talk.version >= 1:
        talk.ask(ElectLeadersRequest(election_type=7, topic_partitions=wanted, timeout_ms=0))


@conversation(ApiKey.LIST_PARTITION_REASSIGNMENTS)
def list_partition_reassignments(talk: Talk) -> None:
    """Lists reassignments of all partitions, of some, and of partitions that don't exist."""
    topic = talk.topic("a", 2)
    talk.ask(ListPartitionReassignmentsRequest(topics=None))
    talk.ask(ListPartitionReassignmentsRequest(topics=[]))
    for name, indexes in ((topic.name, [0, 1, 9]), (talk.name("absent"), [0]), (topic.name, [])):
        wanted = [ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes)]
        talk.ask(ListPartitionReassignmentsRequest(topics=wanted))


@conversation(ApiKey.LIST_PARTITION_REASSIGNMENTS)
def list_partition_reassignments_without_time(talk: Talk) -> None:
    """Lists reassignments of all partitions, and of some, with a timeout that is over."""
    wanted = [ListPartitionReassignmentsTopics(name=talk.topic("a").name, partition_indexes=[0])]
    for timeout_ms in (0, -1):
        talk.ask(ListPartitionReassignmentsRequest(topics=None, timeout_ms=timeout_ms))
        talk.ask(ListPartitionReassignmentsRequest(topics=wanted, timeout_ms=timeout_ms))


@conversation(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
def alter_partition_reassignments(talk: Talk) -> None:
    """Reassigns partitions to their present broker, to a broker that doesn't exist, and to no broker. Cancels
    reassignments, and names partitions that don't exist."""
    topic = talk.topic("a", 2)
    talk.ask(AlterPartitionReassignmentsRequest(topics=[]))
    for name, index, replicas in (
        (topic.name, 0, [1]),
        (topic.name, 0, [77]),
        (topic.name, 0, [1, 77]),
        (topic.name, 0, [1, 1]),
        (topic.name, 0, [-1]),
        (topic.name, 0, []),
        (topic.name, 0, None),
        (topic.name, 9, [1]),
        (topic.name, 9, None),
        (talk.name("absent"), 0, [1]),
        (talk.name("absent"), 0, None),
        ("", 0, [1]),
    ):
        partition = ReassignablePartition(partition_index=index, replicas=replicas)
        wanted = [ReassignableTopic(name=name, partitions=[partition])]
        talk.ask(AlterPartitionReassignmentsRequest(topics=wanted))
    partitions = [ReassignablePartition(partition_index=index, replicas=[1]) for index in (0, 1, 1)]
    talk.ask(AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic.name, partitions=partitions)]))


@conversation(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
def alter_partition_reassignments_without_time(talk: Talk) -> None:
    """Reassigns partitions, and none, with a timeout that is over."""
    topic = talk.topic("a", 2)
    for timeout_ms in (0, -1):
        partitions = [ReassignablePartition(partition_index=index, replicas=[1]) for index in (0, 9)]
        wanted = [ReassignableTopic(name=topic.name, partitions=partitions)]
        talk.ask(AlterPartitionReassignmentsRequest(topics=wanted, timeout_ms=timeout_ms))
    talk.ask(AlterPartitionReassignmentsRequest(topics=[], timeout_ms=0))


@conversation(ApiKey.ALTER_REPLICA_LOG_DIRS)
def alter_replica_log_dirs(talk: Talk) -> None:
    """Moves replicas to a folder that is not a log directory of the broker."""
    topic = talk.topic("a", 2)
    talk.ask(AlterReplicaLogDirsRequest(dirs=[]))
    for path, name, partitions in (
        ("/no/such/folder", topic.name, [0, 1]),
        ("/no/such/folder", topic.name, [9]),
        ("/no/such/folder", talk.name("absent"), [0]),
        ("/no/such/folder", topic.name, []),
        ("not/absolute", topic.name, [0]),
        ("", topic.name, [0]),
    ):
        topics = [AlterReplicaLogDirTopic(name=name, partitions=partitions)]
        talk.ask(AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)]))


@conversation(ApiKey.UNREGISTER_BROKER)
def unregister_broker(talk: Talk) -> None:
    """Unregisters brokers that don't exist."""
    for number in (77, -1):
        talk.ask(UnregisterBrokerRequest(broker_id=number))


# -- features and the quorum


@conversation(ApiKey.UPDATE_FEATURES)
def update_features(talk: Talk) -> None:
    """Validates updates of features to the same level, to higher and lower levels, and of unknown features."""
    talk.ask(UpdateFeaturesRequest(feature_updates=[]))
    upgrade, safe_downgrade, unsafe_downgrade = 1, 2, 3
    for name, level, kind in (
        ("group.version", 1, upgrade),
        ("group.version", 9, upgrade),
        ("group.version", 0, upgrade),
        ("group.version", -1, upgrade),
        ("transaction.version", 2, upgrade),
        ("transaction.version", 9, upgrade),
        ("metadata.version", 30, upgrade),
        ("metadata.version", 7, upgrade),
        ("metadata.version", 7, safe_downgrade),
        ("metadata.version", 7, unsafe_downgrade),
        ("metadata.version", 99, upgrade),
        ("metadata.version", 0, upgrade),
        ("no.such.feature", 1, upgrade),
        ("", 1, upgrade),
        ("group.version", 1, safe_downgrade),
        ("group.version", 1, unsafe_downgrade),
        ("group.version", 0, 7),
    ):
        update = FeatureUpdateKey(
            feature=name, max_version_level=level, upgrade_type=kind, allow_downgrade=kind != upgrade
        )
        talk.ask(UpdateFeaturesRequest(feature_updates=[update], validate_only=True))
    same = FeatureUpdateKey(feature="group.version", max_version_level=1)
    unknown = FeatureUpdateKey(feature="no.such.feature", max_version_level=1)
    talk.ask(UpdateFeaturesRequest(feature_updates=[same, unknown], validate_only=True))
    talk.ask(UpdateFeaturesRequest(feature_updates=[same, same], validate_only=True))


@conversation(ApiKey.DESCRIBE_QUORUM)
def describe_quorum(talk: Talk) -> None:
    """Describes the quorum of the metadata log, and of a topic without a quorum."""
    talk.ask(DescribeQuorumRequest(topics=[]))
    for name, indexes in (("__cluster_metadata", [0]), ("__cluster_metadata", [0, 1]), ("orders", [0])):
        partitions = [describe_quorum_request.PartitionData(partition_index=index) for index in indexes]
        topics = [describe_quorum_request.TopicData(topic_name=name, partitions=partitions)]
        talk.ask(DescribeQuorumRequest(topics=topics))


@conversation(ApiKey.ADD_RAFT_VOTER)
def add_raft_voter(talk: Talk) -> None:
    """Adds voters to a quorum that can't grow."""
    listeners = [VoterListener(name="CONTROLLER", host="127.0.0.1", port=9)]
    voter = AddRaftVoterRequest(cluster_id=None, voter_id=7, voter_directory_id=b"\1" * 16, listeners=listeners)
    talk.ask(voter)
    talk.ask(AddRaftVoterRequest(cluster_id="another", voter_id=7, voter_directory_id=b"\1" * 16, listeners=listeners))
    talk.ask(AddRaftVoterRequest(cluster_id=None, voter_id=-1, voter_directory_id=b"\1" * 16, listeners=listeners))


@conversation(ApiKey.REMOVE_RAFT_VOTER)
def remove_raft_voter(talk: Talk) -> None:
    """Removes voters from a quorum that can't shrink."""
    talk.ask(RemoveRaftVoterRequest(cluster_id=None, voter_id=7, voter_directory_id=b"\1" * 16))
    talk.ask(RemoveRaftVoterRequest(cluster_id="another", voter_id=7, voter_directory_id=b"\1" * 16))
    talk.ask(RemoveRaftVoterRequest(cluster_id=None, voter_id=-1, voter_directory_id=b"\1" * 16))
