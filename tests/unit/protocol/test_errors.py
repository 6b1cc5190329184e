"""Error codes and the exception that carries them."""

from __future__ import annotations

import pickle

from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.record_batch import CorruptRecord


def test_an_error_survives_the_way_between_processes() -> None:
    """Spark's workers send exceptions to the driver as pickles."""
    error = pickle.loads(pickle.dumps(KafkaError(ErrorCode.not_coordinator, "ask another")))
    assert (error.code, error.message, str(error)) == (
        ErrorCode.not_coordinator,
        "ask another",
        "NOT_COORDINATOR: ask another",
    )
    corrupt = pickle.loads(pickle.dumps(CorruptRecord("cut off")))
    assert (corrupt.code, corrupt.message) == (ErrorCode.corrupt_message, "cut off")


def test_retriable_is_as_java_says() -> None:
    """Clients try again after NOT_COORDINATOR and not after UNKNOWN_MEMBER_ID."""
    assert ErrorCode.not_coordinator.retriable
    assert not ErrorCode.unknown_member_id.retriable
