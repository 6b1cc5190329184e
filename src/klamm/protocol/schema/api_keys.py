# From Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from enum import IntEnum


class ApiKey(IntEnum):
    """The number that names an API in a request's header."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


# API key, lowest and highest stable version, first flexible version, name in modules and classes, listeners.
API_TABLE: tuple[tuple[int, int, int, int | None, str, str, tuple[str, ...]], ...] = (
    (0, 3, 13, 9, "produce", "Produce", ("broker",)),
    (1, 4, 18, 12, "fetch", "Fetch", ("broker", "controller")),
    (2, 1, 11, 6, "list_offsets", "ListOffsets", ("broker",)),
    (3, 0, 13, 9, "metadata", "Metadata", ("broker",)),
    (8, 2, 10, 8, "offset_commit", "OffsetCommit", ("broker",)),
    (9, 1, 10, 6, "offset_fetch", "OffsetFetch", ("broker",)),
    (10, 0, 6, 3, "find_coordinator", "FindCoordinator", ("broker",)),
    (11, 0, 9, 6, "join_group", "JoinGroup", ("broker",)),
    (12, 0, 4, 4, "heartbeat", "Heartbeat", ("broker",)),
    (13, 0, 5, 4, "leave_group", "LeaveGroup", ("broker",)),
    (14, 0, 5, 4, "sync_group", "SyncGroup", ("broker",)),
    (15, 0, 6, 5, "describe_groups", "DescribeGroups", ("broker",)),
    (16, 0, 5, 3, "list_groups", "ListGroups", ("broker",)),
    (17, 0, 1, None, "sasl_handshake", "SaslHandshake", ("broker", "controller")),
    (18, 0, 4, 3, "api_versions", "ApiVersions", ("broker", "controller")),
    (19, 2, 7, 5, "create_topics", "CreateTopics", ("broker", "controller")),
    (20, 1, 6, 4, "delete_topics", "DeleteTopics", ("broker", "controller")),
    (21, 0, 2, 2, "delete_records", "DeleteRecords", ("broker",)),
    (22, 0, 5, 2, "init_producer_id", "InitProducerId", ("broker",)),
    (23, 2, 4, 4, "offset_for_leader_epoch", "OffsetForLeaderEpoch", ("broker",)),
    (24, 0, 5, 3, "add_partitions_to_txn", "AddPartitionsToTxn", ("broker",)),
    (25, 0, 4, 3, "add_offsets_to_txn", "AddOffsetsToTxn", ("broker",)),
    (26, 0, 5, 3, "end_txn", "EndTxn", ("broker",)),
    (27, 1, 2, 1, "write_txn_markers", "WriteTxnMarkers", ("broker",)),
    (28, 0, 5, 3, "txn_offset_commit", "TxnOffsetCommit", ("broker",)),
    (29, 1, 3, 2, "describe_acls", "DescribeAcls", ("broker", "controller")),
    (30, 1, 3, 2, "create_acls", "CreateAcls", ("broker", "controller")),
    (31, 1, 3, 2, "delete_acls", "DeleteAcls", ("broker", "controller")),
    (32, 1, 4, 4, "describe_configs", "DescribeConfigs", ("broker", "controller")),
    (33, 0, 2, 2, "alter_configs", "AlterConfigs", ("broker", "controller")),
    (34, 1, 2, 2, "alter_replica_log_dirs", "AlterReplicaLogDirs", ("broker",)),
    (35, 1, 5, 2, "describe_log_dirs", "DescribeLogDirs", ("broker",)),
    (36, 0, 2, 2, "sasl_authenticate", "SaslAuthenticate", ("broker", "controller")),
    (37, 0, 3, 2, "create_partitions", "CreatePartitions", ("broker", "controller")),
    (38, 1, 3, 2, "create_delegation_token", "CreateDelegationToken", ("broker", "controller")),
    (39, 1, 2, 2, "renew_delegation_token", "RenewDelegationToken", ("broker", "controller")),
    (40, 1, 2, 2, "expire_delegation_token", "ExpireDelegationToken", ("broker", "controller")),
    (41, 1, 3, 2, "describe_delegation_token", "DescribeDelegationToken", ("broker", "controller")),
    (42, 0, 2, 2, "delete_groups", "DeleteGroups", ("broker",)),
    (43, 0, 2, 2, "elect_leaders", "ElectLeaders", ("broker", "controller")),
    (44, 0, 1, 1, "incremental_alter_configs", "IncrementalAlterConfigs", ("broker", "controller")),
    (45, 0, 1, 0, "alter_partition_reassignments", "AlterPartitionReassignments", ("broker", "controller")),
    (46, 0, 0, 0, "list_partition_reassignments", "ListPartitionReassignments", ("broker", "controller")),
    (47, 0, 0, None, "offset_delete", "OffsetDelete", ("broker",)),
    (48, 0, 1, 1, "describe_client_quotas", "DescribeClientQuotas", ("broker",)),
    (49, 0, 1, 1, "alter_client_quotas", "AlterClientQuotas", ("broker", "controller")),
    (50, 0, 0, 0, "describe_user_scram_credentials", "DescribeUserScramCredentials", ("broker", "controller")),
    (51, 0, 0, 0, "alter_user_scram_credentials", "AlterUserScramCredentials", ("broker", "controller")),
    (52, 0, 2, 0, "vote", "Vote", ("controller",)),
    (53, 0, 1, 1, "begin_quorum_epoch", "BeginQuorumEpoch", ("controller",)),
    (54, 0, 1, 1, "end_quorum_epoch", "EndQuorumEpoch", ("controller",)),
    (55, 0, 2, 0, "describe_quorum", "DescribeQuorum", ("broker", "controller")),
    (56, 2, 3, 0, "alter_partition", "AlterPartition", ("controller",)),
    (57, 0, 2, 0, "update_features", "UpdateFeatures", ("broker", "controller")),
    (58, 0, 0, 0, "envelope", "Envelope", ("controller",)),
    (59, 0, 1, 0, "fetch_snapshot", "FetchSnapshot", ("controller",)),
    (60, 0, 2, 0, "describe_cluster", "DescribeCluster", ("broker", "controller")),
    (61, 0, 0, 0, "describe_producers", "DescribeProducers", ("broker",)),
    (62, 0, 4, 0, "broker_registration", "BrokerRegistration", ("controller",)),
    (63, 0, 2, 0, "broker_heartbeat", "BrokerHeartbeat", ("controller",)),
    (64, 0, 0, 0, "unregister_broker", "UnregisterBroker", ("broker", "controller")),
    (65, 0, 0, 0, "describe_transactions", "DescribeTransactions", ("broker",)),
    (66, 0, 2, 0, "list_transactions", "ListTransactions", ("broker",)),
    (67, 0, 0, 0, "allocate_producer_ids", "AllocateProducerIds", ("controller",)),
    (68, 0, 1, 0, "consumer_group_heartbeat", "ConsumerGroupHeartbeat", ("broker",)),
    (69, 0, 1, 0, "consumer_group_describe", "ConsumerGroupDescribe", ("broker",)),
    (70, 0, 0, 0, "controller_registration", "ControllerRegistration", ("controller",)),
    (71, 0, 0, 0, "get_telemetry_subscriptions", "GetTelemetrySubscriptions", ("broker",)),
    (72, 0, 0, 0, "push_telemetry", "PushTelemetry", ("broker",)),
    (73, 0, 0, 0, "assign_replicas_to_dirs", "AssignReplicasToDirs", ("controller",)),
    (74, 0, 1, 0, "list_config_resources", "ListConfigResources", ("broker",)),
    (75, 0, 0, 0, "describe_topic_partitions", "DescribeTopicPartitions", ("broker",)),
    (76, 1, 1, 0, "share_group_heartbeat", "ShareGroupHeartbeat", ("broker",)),
    (77, 1, 1, 0, "share_group_describe", "ShareGroupDescribe", ("broker",)),
    (78, 1, 2, 0, "share_fetch", "ShareFetch", ("broker",)),
    (79, 1, 2, 0, "share_acknowledge", "ShareAcknowledge", ("broker",)),
    (80, 0, 1, 0, "add_raft_voter", "AddRaftVoter", ("controller", "broker")),
    (81, 0, 0, 0, "remove_raft_voter", "RemoveRaftVoter", ("controller", "broker")),
    (82, 0, 0, 0, "update_raft_voter", "UpdateRaftVoter", ("controller",)),
    (83, 0, 0, 0, "initialize_share_group_state", "InitializeShareGroupState", ("broker",)),
    (84, 0, 0, 0, "read_share_group_state", "ReadShareGroupState", ("broker",)),
    (85, 0, 1, 0, "write_share_group_state", "WriteShareGroupState", ("broker",)),
    (86, 0, 0, 0, "delete_share_group_state", "DeleteShareGroupState", ("broker",)),
    (87, 0, 1, 0, "read_share_group_state_summary", "ReadShareGroupStateSummary", ("broker",)),
    (88, 0, 0, 0, "streams_group_heartbeat", "StreamsGroupHeartbeat", ("broker",)),
    (89, 0, 0, 0, "streams_group_describe", "StreamsGroupDescribe", ("broker",)),
    (90, 0, 1, 0, "describe_share_group_offsets", "DescribeShareGroupOffsets", ("broker",)),
    (91, 0, 0, 0, "alter_share_group_offsets", "AlterShareGroupOffsets", ("broker",)),
    (92, 0, 0, 0, "delete_share_group_offsets", "DeleteShareGroupOffsets", ("broker",)),
)

KAFKA_VERSION = "4.3.0"
