"""Settings of the transaction coordinator; the keys are Kafka's."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TransactionCoordinatorConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionCoordinatorConfig:
    """Settings of the transaction coordinator; times are in milliseconds."""

    max_timeout_ms: int = 900_000
    """`transaction.max.timeout.ms`: the longest transaction timeout that a producer may request."""
    id_expiration_ms: int = 604_800_000
    """`transactional.id.expiration.ms`: how long an unused transactional id is kept."""
    abort_interval_ms: int = 10_000
    """`transaction.abort.timed.out.transaction.cleanup.interval.ms`"""
    expiry_interval_ms: int = 3_600_000
    """`transaction.remove.expired.transaction.cleanup.interval.ms`"""
    add_retry_ms: int = 20
    """`add.partitions.to.txn.retry.backoff.ms`"""
    add_retry_max_ms: int = 100
    """`add.partitions.to.txn.retry.backoff.max.ms`: how long a broker that adds a partition for a producer waits for
    the markers of the previous transaction. After that, the producer has to retry."""
