"""Requests with which a broker leaves a cluster: cordon (KIP-1066) and unregister (KIP-631)."""

from __future__ import annotations

import time
from typing import Final

from klamm.insight.cluster_requests import ClusterRequests, code_name
from klamm.insight.errors import ClusterError
from klamm.protocol.schema.describe_log_dirs_request import DescribeLogDirsRequest
from klamm.protocol.schema.describe_log_dirs_response import DescribeLogDirsResponse
from klamm.protocol.schema.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from klamm.protocol.schema.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from klamm.protocol.schema.unregister_broker_request import UnregisterBrokerRequest
from klamm.protocol.schema.unregister_broker_response import UnregisterBrokerResponse
from klamm.protocol.types import BrokerId

__all__ = ["cordon", "uncordon", "unregister"]

_BROKER: Final = 4
_SET, _DELETE = 0, 1
_KEY: Final = "cordoned.log.dirs"
_PATIENCE_S: Final = 5.0
_PAUSE_S: Final = 0.1


def cordon(requests: ClusterRequests, broker: int) -> bool:
    """Cordons all log directories of a live broker. Returns whether the broker shows them as cordoned within five
    seconds; a cluster before Apache Kafka 4.3 does not. Raises ClusterError."""
    _alter(requests, broker, AlterableConfig(name=_KEY, config_operation=_SET, value="*"))
    deadline = time.monotonic() + _PATIENCE_S
    while not _shows_cordoned(requests, broker):
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE_S)
    return True


def uncordon(requests: ClusterRequests, broker: int) -> None:
    """Lets a live broker get new replicas again. Raises ClusterError."""
    _alter(requests, broker, AlterableConfig(name=_KEY, config_operation=_DELETE, value=None))


def unregister(requests: ClusterRequests, broker: int) -> None:
    """Removes the registration of a stopped broker. Raises ClusterError."""
    answer = requests.ask(UnregisterBrokerRequest(broker_id=broker), UnregisterBrokerResponse)
    if answer.error_code:
        raise _refusal(answer.error_code, answer.error_message)


def _alter(requests: ClusterRequests, broker: int, change: AlterableConfig) -> None:
    """Sends the change to the broker itself, which checks it against its own log directories."""
    resource = AlterConfigsResource(resource_type=_BROKER, resource_name=str(broker), configs=[change])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    answers = requests.ask_each({BrokerId(broker): request}, IncrementalAlterConfigsResponse)
    if BrokerId(broker) not in answers:
        raise ClusterError(f"broker {broker} does not answer, and only the broker itself can change its {_KEY}")
    for result in answers[BrokerId(broker)].responses:
        if result.error_code:
            raise _refusal(result.error_code, result.error_message)


def _shows_cordoned(requests: ClusterRequests, broker: int) -> bool:
    question = {BrokerId(broker): DescribeLogDirsRequest(topics=[])}
    answer = requests.ask_each(question, DescribeLogDirsResponse).get(BrokerId(broker))
    return answer is not None and any(folder.is_cordoned for folder in answer.results)


def _refusal(code: int, message: str | None) -> ClusterError:
    return ClusterError(f"{code_name(code)}: {message}" if message else code_name(code))
