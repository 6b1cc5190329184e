"""The controller quorum that klamm reports. A metadata store replaces it; this broker is the one voter.

As in a cluster of Apache Kafka with `kraft.version` 0, voters can't be added or removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from klamm.broker.handler_context import BrokerContext

__all__ = ["check_voter_change"]


def check_voter_change(broker: BrokerContext, cluster_id: str | None, is_valid: bool, verb: str) -> None:
    """Raises the error that Kafka returns to a request to add or remove a voter if `kraft.version` is 0.

    `is_valid`: the request names a valid voter; `verb`: add or remove. Raises INCONSISTENT_CLUSTER_ID, INVALID_REQUEST
    or UNSUPPORTED_VERSION.
    """
    if cluster_id is not None and cluster_id != broker.cluster_id:
        reason = f'The given id "{cluster_id}" doesn\'t match the cluster id "{broker.cluster_id}"'
        raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID, reason)
    if not is_valid:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{verb.capitalize()} voter request didn't include a valid voter")
    participle = verb.removesuffix("e") + "ing"
    reason = f"Cluster doesn't support {participle} voter because the kraft.version feature is 0"
    raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, reason)
