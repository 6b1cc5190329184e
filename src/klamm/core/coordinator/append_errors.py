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
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
    ErrorCode.record_list_too_large: ErrorCode.unknown_server_error,
    ErrorCode.invalid_fetch_size: ErrorCode.unknown_server_error,
    ErrorCode.network_exception: ErrorCode.coordinator_load_in_progress,
}

# Consumers before 3.9 neither expect nor retry COORDINATOR_NOT_AVAILABLE on OffsetFetch.
_OFFSET_FETCH: Final = {
    **_COORDINATOR,
    ErrorCode.unknown_topic_or_partition: ErrorCode.not_coordinator,
    ErrorCode.not_enough_replicas: ErrorCode.not_coordinator,
    ErrorCode.request_timed_out: ErrorCode.not_coordinator,
}


def coordinator_error(code: ErrorCode) -> ErrorCode:
    """Returns the error code for clients of any coordinator API except OffsetFetch."""
    return _COORDINATOR.get(code, code)


def offset_fetch_error(code: ErrorCode) -> ErrorCode:
    """Returns the error code for OffsetFetch."""
    return _OFFSET_FETCH.get(code, code)
