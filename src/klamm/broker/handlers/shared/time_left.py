"""Refuses changes of the metadata whose time is over, as the event queue of Kafka's controller does.

Kafka compares the deadline of a request when its change is about to begin (`KafkaEventQueue`,
`ControllerRequestContext.requestTimeoutMsToDeadlineNs`). So a timeout of 0 or less is over at once, and nothing is
changed. klamm does not queue the changes of all brokers, and does not end a change that waits: a longer timeout has no
effect.
"""

from __future__ import annotations

from klamm.protocol.errors import ErrorCode, KafkaError

__all__ = ["require_time_left"]


def require_time_left(timeout_ms: int) -> None:
    """Raises REQUEST_TIMED_OUT if the time of a request was over when it arrived."""
    if timeout_ms <= 0:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
