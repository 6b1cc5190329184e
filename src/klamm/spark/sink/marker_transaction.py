"""The transaction that writes a micro-batch and moves the marker, step by step (ADR 35)."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import time

from klamm.client.cluster import Cluster
from klamm.client.committed_offsets import GroupOffsets
from klamm.client.producer.producer import BlockingProducer
from klamm.client.producer.producer_config import ProducerConfig
from klamm.client.producer.transactions import OffsetToCommit
from klamm.protocol.types import Millis, PartitionIndex, TopicPartition
from klamm.spark.sink.checkpoint_batch import CheckpointBatch
from klamm.spark.sink.first_batch import FirstBatch
from klamm.spark.sink.marker import Marker, group_of, transactional_id_of
from klamm.spark.sink.offsets_retention import offsets_retention_ms
from klamm.spark.sink.replay_decision import MarkerTerms, Replay, decide, marker_for
from klamm.spark.sink.staged_batches import StagedBatch
from klamm.spark.sink.watched_deliveries import WatchedDeliveries

__all__ = ["MarkerTransaction"]

_logger = logging.getLogger(__name__)

_AT_ONCE = Millis(0)


class MarkerTransaction:
    """One attempt to write one micro-batch.

    The steps come in the order of the methods; a step that raises is the last one before `close`. `read_marker` comes
    after `initialize`, because after `initialize` no earlier run of the query can move the marker. Without `end` no
    record of the transaction becomes visible. The methods raise the producer's and the client's errors.
    """

    def __init__(self, config: ProducerConfig, batch: CheckpointBatch, marker_topic: str) -> None:
        """Opens no connection yet."""
        self.batch = batch
        """The micro-batch."""
        self._place = TopicPartition(marker_topic, PartitionIndex(0))
        self._producer = BlockingProducer(
            dataclasses.replace(config, transactional_id=transactional_id_of(batch.query_id))
        )
        self._cluster = Cluster(config.client)
        self._deliveries = WatchedDeliveries()
        self._sent_bytes = 0
        self._timeout_ms = config.transaction_timeout_ms
        self._began_at: float | None = None

    @property
    def duration_s(self) -> float:
        """How long the transaction is open; 0 before `begin`."""
        return 0 if self._began_at is None else time.monotonic() - self._began_at

    def initialize(self) -> None:
        """Fences all earlier runs of the query, and waits until their transactions have ended (InitProducerId)."""
        self._producer.init_transactions()

    def read_marker(self) -> Marker | None:
        """Returns the marker. Raises `MarkerDamaged` too."""
        return self._marker(requires_stable=True)

    def glance_at_marker(self) -> Marker | None:
        """Returns the marker before `initialize`, when another run may still move it. Raises `MarkerDamaged` too."""
        return self._marker(requires_stable=False)

    def decide(self, marker: Marker | None, first_batch: FirstBatch | None) -> Replay:
        """Returns whether to send the micro-batch or to drop it. Raises `MarkerMissing` and `MarkerConflict` too."""
        is_first = marker is None and self.batch.batch_id == 0
        retention_ms = offsets_retention_ms(self._cluster) if is_first else None
        now_ms = Millis(time.time_ns() // 1_000_000)
        is_first_attempt = self._producer.identity.epoch == 0
        return decide(self.batch, marker, MarkerTerms(now_ms, retention_ms, is_first_attempt, first_batch))

    def begin(self) -> None:
        """Begins the transaction. Raises `PartitionMissing` if there is no topic for the marker."""
        # A micro-batch without rows may be the first to need the topic, which the broker may create.
        self._producer.partitions_of(self._place.topic)
        self._producer.begin_transaction()
        self._began_at = time.monotonic()

    def send_batch(self, batch: StagedBatch) -> None:
        """Sends a record batch; waits only for the producer's memory."""
        self._deliveries.add(self._producer.send_batch(batch.topic, batch.partition, batch.data))
        self._sent_bytes += len(batch.data)
        self._deliveries.check()

    def flush(self) -> None:
        """Waits until the brokers have acknowledged all record batches."""
        self._producer.flush()
        self._deliveries.check()

    def move_marker(self) -> None:
        """Commits the marker in the transaction (TxnOffsetCommit)."""
        offset, metadata = Marker(self.batch.batch_id, self.batch.run_id, self.batch.offsets_hash).to_commit()
        self._producer.send_offsets(
            {self._place: OffsetToCommit(offset, metadata=metadata)}, group_of(self.batch.query_id)
        )

    def end(self) -> None:
        """Commits the transaction (EndTxn). When it returns, the micro-batch is in its topics.

        Logs a warning if the transaction was open for more than half of its timeout: a larger micro-batch, or a slower
        network of the driver, would fail.
        """
        self._producer.commit_transaction()
        if self.duration_s * 1000 > self._timeout_ms / 2:
            _logger.warning(
                "the transaction of micro-batch %s of the query %s was open for %.1f s, in which the driver sent %.1f "
                "MB; after kafka.transaction.timeout.ms=%s the coordinator aborts it and the query fails. Make the "
                "micro-batches smaller (maxOffsetsPerTrigger), or raise the timeout",
                self.batch.batch_id,
                self.batch.query_id,
                self.duration_s,
                self._sent_bytes / 1_000_000,
                self._timeout_ms,
            )

    def close(self) -> None:
        """Closes the connections. A transaction that has not ended is left to the next `initialize`. Never raises."""
        with contextlib.suppress(Exception):
            self._producer.close(_AT_ONCE)
        with contextlib.suppress(Exception):
            self._cluster.close()

    def _marker(self, *, requires_stable: bool) -> Marker | None:
        offsets = GroupOffsets(self._cluster, group_of(self.batch.query_id))
        commits = offsets.commits([self._place], requires_stable=requires_stable)
        return marker_for(self.batch, commits.get(self._place))
