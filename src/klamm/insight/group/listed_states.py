"""The states of the groups in a listing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress

from confluent_kafka import ConsumerGroupState
from confluent_kafka.admin import ConsumerGroupListing

from klamm.client.errors import AuthenticationFailed, UnsupportedByBroker
from klamm.client.group_states import group_states
from klamm.insight.cluster_access import ClusterAccess
from klamm.insight.group.group_picture import librdkafka_state_words, state_words
from klamm.insight.group.group_snapshot import raw_cluster

__all__ = ["listed_states"]


def listed_states(access: ClusterAccess, groups: Sequence[ConsumerGroupListing]) -> dict[str, str]:
    """Returns the groups' states by id. The raw client looks up the states that librdkafka does not know."""
    states = {group.group_id: librdkafka_state_words(group.state or ConsumerGroupState.UNKNOWN) for group in groups}
    unknown = [group_id for group_id, state in states.items() if state == "unknown"]
    cluster = raw_cluster(access) if unknown else None
    if cluster is not None:
        with closing(cluster), suppress(AuthenticationFailed, UnsupportedByBroker):
            told = group_states(cluster)
            states |= {group_id: state_words(told[group_id]) for group_id in unknown if group_id in told}
    return states
