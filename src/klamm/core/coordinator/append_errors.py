"""Maps the log's errors to those that a coordinator's clients understand.

Clients of a coordinator don't know the log's errors; they know "retry" and "find the coordinator again". After
Apache Kafka's `CoordinatorOperationExceptionHelper` and, for OffsetFetch,
`GroupCoordinatorService.handleOffsetFetchException`.
"""

from __future__ import annotations

from typing import Final

from klamm.protocol.errors import ErrorCode

__all__ = ["coordinator_error", "offset_fetch_error"]

_COORDINATOR: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}

# Consumers before 3.9 neither expect nor retry COORDINATOR_NOT_AVAILABLE on OffsetFetch.
_OFFSET_FETCH: Final = {
    **_COORDINATOR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.NOT_COORDINATOR,
}


def coordinator_error(code: ErrorCode) -> ErrorCode:
    """Returns the error code for clients of any coordinator API except OffsetFetch."""
    return _COORDINATOR.get(code, code)


def offset_fetch_error(code: ErrorCode) -> ErrorCode:
    """Returns the error code for OffsetFetch."""
    return _OFFSET_FETCH.get(code, code)
