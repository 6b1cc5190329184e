# From Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
# By record type: the key's module and class, the value's module and class.
from __future__ import annotations

GROUP_RECORDS: dict[int, tuple[str, str, str, str]] = {
    0: ("legacy_offset_commit_key", "LegacyOffsetCommitKey", "legacy_offset_commit_value", "LegacyOffsetCommitValue"),
    1: ("offset_commit_key", "OffsetCommitKey", "offset_commit_value", "OffsetCommitValue"),
    2: ("group_metadata_key", "GroupMetadataKey", "group_metadata_value", "GroupMetadataValue"),
    3: ("consumer_group_metadata_key", "ConsumerGroupMetadataKey", "consumer_group_metadata_value", "ConsumerGroupMetadataValue"),
    4: ("consumer_group_partition_metadata_key", "ConsumerGroupPartitionMetadataKey", "consumer_group_partition_metadata_value", "ConsumerGroupPartitionMetadataValue"),
    5: ("consumer_group_member_metadata_key", "ConsumerGroupMemberMetadataKey", "consumer_group_member_metadata_value", "ConsumerGroupMemberMetadataValue"),
    6: ("consumer_group_target_assignment_metadata_key", "ConsumerGroupTargetAssignmentMetadataKey", "consumer_group_target_assignment_metadata_value", "ConsumerGroupTargetAssignmentMetadataValue"),
    7: ("consumer_group_target_assignment_member_key", "ConsumerGroupTargetAssignmentMemberKey", "consumer_group_target_assignment_member_value", "ConsumerGroupTargetAssignmentMemberValue"),
    8: ("consumer_group_current_member_assignment_key", "ConsumerGroupCurrentMemberAssignmentKey", "consumer_group_current_member_assignment_value", "ConsumerGroupCurrentMemberAssignmentValue"),
    10: ("share_group_member_metadata_key", "ShareGroupMemberMetadataKey", "share_group_member_metadata_value", "ShareGroupMemberMetadataValue"),
    11: ("share_group_metadata_key", "ShareGroupMetadataKey", "share_group_metadata_value", "ShareGroupMetadataValue"),
    12: ("share_group_target_assignment_metadata_key", "ShareGroupTargetAssignmentMetadataKey", "share_group_target_assignment_metadata_value", "ShareGroupTargetAssignmentMetadataValue"),
    13: ("share_group_target_assignment_member_key", "ShareGroupTargetAssignmentMemberKey", "share_group_target_assignment_member_value", "ShareGroupTargetAssignmentMemberValue"),
    14: ("share_group_current_member_assignment_key", "ShareGroupCurrentMemberAssignmentKey", "share_group_current_member_assignment_value", "ShareGroupCurrentMemberAssignmentValue"),
    15: ("share_group_state_partition_metadata_key", "ShareGroupStatePartitionMetadataKey", "share_group_state_partition_metadata_value", "ShareGroupStatePartitionMetadataValue"),
    16: ("consumer_group_regular_expression_key", "ConsumerGroupRegularExpressionKey", "consumer_group_regular_expression_value", "ConsumerGroupRegularExpressionValue"),
    17: ("streams_group_metadata_key", "StreamsGroupMetadataKey", "streams_group_metadata_value", "StreamsGroupMetadataValue"),
    19: ("streams_group_member_metadata_key", "StreamsGroupMemberMetadataKey", "streams_group_member_metadata_value", "StreamsGroupMemberMetadataValue"),
    20: ("streams_group_target_assignment_metadata_key", "StreamsGroupTargetAssignmentMetadataKey", "streams_group_target_assignment_metadata_value", "StreamsGroupTargetAssignmentMetadataValue"),
    21: ("streams_group_target_assignment_member_key", "StreamsGroupTargetAssignmentMemberKey", "streams_group_target_assignment_member_value", "StreamsGroupTargetAssignmentMemberValue"),
    22: ("streams_group_current_member_assignment_key", "StreamsGroupCurrentMemberAssignmentKey", "streams_group_current_member_assignment_value", "StreamsGroupCurrentMemberAssignmentValue"),
    23: ("streams_group_topology_key", "StreamsGroupTopologyKey", "streams_group_topology_value", "StreamsGroupTopologyValue"),
}

TRANSACTION_RECORDS: dict[int, tuple[str, str, str, str]] = {
    0: ("transaction_log_key", "TransactionLogKey", "transaction_log_value", "TransactionLogValue"),
}

SHARE_RECORDS: dict[int, tuple[str, str, str, str]] = {
    0: ("share_snapshot_key", "ShareSnapshotKey", "share_snapshot_value", "ShareSnapshotValue"),
    1: ("share_update_key", "ShareUpdateKey", "share_update_value", "ShareUpdateValue"),
}

METADATA_RECORDS: dict[int, tuple[str, str]] = {
    0: ("register_broker_record", "RegisterBrokerRecord"),
    1: ("unregister_broker_record", "UnregisterBrokerRecord"),
    2: ("topic_record", "TopicRecord"),
    3: ("partition_record", "PartitionRecord"),
    4: ("config_record", "ConfigRecord"),
    5: ("partition_change_record", "PartitionChangeRecord"),
    7: ("fence_broker_record", "FenceBrokerRecord"),
    8: ("unfence_broker_record", "UnfenceBrokerRecord"),
    9: ("remove_topic_record", "RemoveTopicRecord"),
    10: ("delegation_token_record", "DelegationTokenRecord"),
    11: ("user_scram_credential_record", "UserScramCredentialRecord"),
    12: ("feature_level_record", "FeatureLevelRecord"),
    14: ("client_quota_record", "ClientQuotaRecord"),
    15: ("producer_ids_record", "ProducerIdsRecord"),
    17: ("broker_registration_change_record", "BrokerRegistrationChangeRecord"),
    18: ("access_control_entry_record", "AccessControlEntryRecord"),
    19: ("remove_access_control_entry_record", "RemoveAccessControlEntryRecord"),
    20: ("no_op_record", "NoOpRecord"),
    21: ("zk_migration_state_record", "ZkMigrationStateRecord"),
    22: ("remove_user_scram_credential_record", "RemoveUserScramCredentialRecord"),
    23: ("begin_transaction_record", "BeginTransactionRecord"),
    24: ("end_transaction_record", "EndTransactionRecord"),
    25: ("abort_transaction_record", "AbortTransactionRecord"),
    26: ("remove_delegation_token_record", "RemoveDelegationTokenRecord"),
    27: ("register_controller_record", "RegisterControllerRecord"),
    28: ("clear_elr_record", "ClearElrRecord"),
}
