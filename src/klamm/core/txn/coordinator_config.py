"""What a transaction coordinator is set to; the keys are Kafka's."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TransactionCoordinatorConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionCoordinatorConfig:
    """Times are milliseconds."""

    max_timeout_ms: int = 900_000
    """`transaction.max.timeout.ms`: no producer may have a transaction open for longer."""
    id_expiration_ms: int = 604_800_000
    """`transactional.id.expiration.ms`: an id that is not used for so long is forgotten."""
    abort_interval_ms: int = 10_000
    """`transaction.abort.timed.out.transaction.cleanup.interval.ms`"""
    expiry_interval_ms: int = 3_600_000
    """`transaction.remove.expired.transaction.cleanup.interval.ms`"""
    add_retry_ms: int = 20
    """`add.partitions.to.txn.retry.backoff.ms`"""
    add_retry_max_ms: int = 100
    """`add.partitions.to.txn.retry.backoff.max.ms`: so long a broker that wants to write waits for the markers of the
    transaction before, and then lets the producer ask again."""
