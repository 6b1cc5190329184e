"""Explains why the commit of a micro-batch failed: what the broker's answer means for the query."""

from __future__ import annotations

from typing import Final

from klamm.client.errors import RequestRefused
from klamm.client.producer.producer_config import ProducerConfig
from klamm.protocol.errors import ErrorCode
from klamm.spark.sink.checkpoint_batch import CheckpointBatch
from klamm.spark.sink.errors import WriteFailed
from klamm.spark.sink.marker import group_of, transactional_id_of

__all__ = ["explained", "overtaken"]

_FENCED: Final = (
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)

_TAKEN_OVER: Final = "Another run of the query, or a query with a copy of its checkpoint, has taken over"


def explained(error: Exception, batch: CheckpointBatch, config: ProducerConfig, open_for_s: float) -> WriteFailed:
    """Returns the error for the user; `open_for_s` is how long the transaction was open."""
    hint = _hint(_code_of(error), batch, config, open_for_s)
    text = f"micro-batch {batch.batch_id} of the query {batch.query_id}: {error}"
    return WriteFailed(f"{text}. {hint}" if hint else text)


def overtaken(batch: CheckpointBatch) -> WriteFailed:
    """Returns the error for a run whose staged files are gone, because another run has written the micro-batch."""
    return WriteFailed(
        f"micro-batch {batch.batch_id} of the query {batch.query_id}: the staged files of this run were removed. "
        f"{_TAKEN_OVER}"
    )


def _code_of(error: BaseException | None) -> ErrorCode | None:
    while error is not None:
        if isinstance(error, RequestRefused):
            return error.code
        error = error.__cause__
    return None


def _hint(code: ErrorCode | None, batch: CheckpointBatch, config: ProducerConfig, open_for_s: float) -> str | None:
    if code in _FENCED and open_for_s * 1000 >= config.transaction_timeout_ms:
        return (
            f"The transaction was open for {open_for_s:.0f} s, longer than kafka.transaction.timeout.ms="
            f"{config.transaction_timeout_ms}, so the coordinator aborted it: raise the timeout, or make the "
            "micro-batches smaller"
        )
    if code in _FENCED:
        return _TAKEN_OVER
    hints = {
        ErrorCode.INVALID_TRANSACTION_TIMEOUT: (
            f"kafka.transaction.timeout.ms={config.transaction_timeout_ms} is more than the broker's "
            "transaction.max.timeout.ms allows"
        ),
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
            f"The sink needs WRITE and DESCRIBE on the transactional id {transactional_id_of(batch.query_id)}"
        ),
        ErrorCode.GROUP_AUTHORIZATION_FAILED: (
            f"The sink needs READ on the group {group_of(batch.query_id)}, which holds its marker"
        ),
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: "The sink needs WRITE on the topics, and READ on the topic of its marker",
        ErrorCode.OFFSET_METADATA_TOO_LARGE: (
            "The sink's marker is a commit with about 170 bytes of metadata: raise offset.metadata.max.bytes"
        ),
    }
    return None if code is None else hints.get(code)
