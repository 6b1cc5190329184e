"""Decides whether a micro-batch is written, or dropped because its topics have it already.

Spark repeats a micro-batch after a crash until its commit log has it. The marker (`marker.py`) says which micro-batch
the topics have. The checkpoint and the marker normally move together; the table has all combinations, N is the
micro-batch's id:

    marker                                    decision
    ----------------------------------------  --------------------------------------------------------------
    none, N = 0, planned a short time ago     send
    none, N = 0, planned long ago             MarkerMissing: the marker may have expired
    none, N = 0, time of the plan not known   send in the first attempt, MarkerMissing in a repetition
    none, N > 0                               MarkerMissing
    none, klamm.sink.first.batch is N         send: the user says that the topics don't have it
    none, klamm.sink.first.batch is N + 1     drop: the user says that the topics have it
    of N, the same hash                       drop: the topics have it
    of N, another hash                        MarkerConflict: another micro-batch with this id was written
    of N - 1, its hash is the checkpoint's    send (also if the checkpoint does not have that file any more)
    of N - 1, another hash                    MarkerConflict
    older than N - 1                          MarkerConflict: micro-batches were skipped
    newer than N                              MarkerConflict: the checkpoint is an older copy

"Long ago" is the retention of offsets. If no broker tells it, the first attempt assumes a day, and a repetition the
shortest time that a broker can be set to. The first attempt has the producer epoch 0: each InitProducerId for the
query's transactional id raises the epoch, so no attempt before it can have written anything.

A wrong decision to send would duplicate records, a wrong decision to drop would lose records. Where the table can't
exclude both, it raises an error. Pure: the clock is an argument.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from klamm.client.committed_offsets import Commit
from klamm.protocol.types import Millis
from klamm.spark.sink.checkpoint_batch import CheckpointBatch
from klamm.spark.sink.first_batch import FirstBatch
from klamm.spark.sink.marker import Marker, group_of
from klamm.spark.sink.marker_errors import MarkerConflict, MarkerDamaged, MarkerMissing

__all__ = ["MarkerTerms", "Replay", "decide", "has_landed", "is_of_another_run", "marker_for"]

_RETENTION_OF_FIRST_ATTEMPT_MS: Final = Millis(24 * 60 * 60 * 1000)
"""Used by the first attempt if no broker returns `offsets.retention.minutes`. A coordinator forgets the epoch of a
transactional id after `transactional.id.expiration.ms`, seven days by default: within a day, epoch 0 is reliable."""
_SHORTEST_RETENTION_MS: Final = Millis(60 * 1000)
"""Used by a repetition then: the lowest value of `offsets.retention.minutes`."""


class Replay(Enum):
    """What to do with a micro-batch."""

    SEND = "send"
    DROP = "drop"


class MarkerTerms(NamedTuple):
    """The settings for the decision without a marker."""

    now_ms: Millis
    retention_ms: Millis | None
    """How long the brokers keep the offsets of a group without members; None if no broker says it."""
    is_first_attempt: bool
    """Whether no earlier attempt can have written the micro-batch: nothing initialized the transactional id before."""
    first_batch: FirstBatch | None = None
    """What the user says. It counts only for the query that it names."""


def marker_for(batch: CheckpointBatch, commit: Commit | None) -> Marker | None:
    """Decodes the marker of the query that writes `batch`; None if nothing is committed.

    Raises `MarkerDamaged`, with a text that says what to do.
    """
    try:
        return Marker.from_commit(commit)
    except MarkerDamaged as error:
        raise MarkerDamaged(
            f"{_stopped(batch)}: the group {group_of(batch.query_id)} has {error} in the place of the marker. A tool "
            "or a consumer has committed an offset for this group, or a later version of klamm has written the marker. "
            f"In the first case, delete the group. {_ask_the_user(batch)}"
        ) from None


def decide(batch: CheckpointBatch, marker: Marker | None, terms: MarkerTerms) -> Replay:
    """Returns whether to send the micro-batch or to drop it.

    `marker` must have been read after the query's transactional id was initialised, because after that no earlier run
    can move it. Raises `MarkerMissing` or `MarkerConflict`, with a text that says what happened and what to do.
    """
    if marker is None:
        return _without_marker(batch, terms)
    if marker.batch_id == batch.batch_id:
        if marker.offsets_hash == batch.offsets_hash:
            return Replay.DROP
        raise _another_batch(batch, marker)
    if marker.batch_id > batch.batch_id:
        raise _older_checkpoint(batch, marker)
    if marker.batch_id < batch.batch_id - 1:
        raise _skipped(batch, marker)
    if batch.previous_offsets_hash not in (None, marker.offsets_hash):
        raise _another_past(batch, marker)
    return Replay.SEND


def has_landed(batch: CheckpointBatch, marker: Marker | None) -> bool:
    """Returns whether the topics have the micro-batch, after a write that failed: the commit may have succeeded
    although its answer was lost."""
    return marker is not None and (marker.batch_id, marker.offsets_hash) == (batch.batch_id, batch.offsets_hash)


def is_of_another_run(batch: CheckpointBatch, marker: Marker | None) -> bool:
    """Returns whether another run of the query, or of a copy of its checkpoint, has written this micro-batch or a later
    one. This run has failed, and must not fence that other run, which works."""
    return marker is not None and batch.run_id not in ("", marker.run_id) and marker.batch_id >= batch.batch_id


def _without_marker(batch: CheckpointBatch, terms: MarkerTerms) -> Replay:
    if terms.first_batch == FirstBatch(batch.query_id, batch.batch_id):
        return Replay.SEND
    if terms.first_batch == FirstBatch(batch.query_id, batch.batch_id + 1):
        return Replay.DROP
    if batch.batch_id > 0:
        raise _missing(batch)
    if batch.planned_ms is None and not terms.is_first_attempt:
        raise _missing_at_first(batch, "the checkpoint does not say when Spark planned this micro-batch", terms)
    if batch.planned_ms is not None and terms.now_ms - batch.planned_ms >= _retention_ms(terms):
        age = _plain_time(terms.now_ms - batch.planned_ms)
        raise _missing_at_first(batch, f"Spark planned this micro-batch {age} ago", terms)
    return Replay.SEND


def _retention_ms(terms: MarkerTerms) -> Millis:
    if terms.retention_ms is not None:
        return terms.retention_ms
    return _RETENTION_OF_FIRST_ATTEMPT_MS if terms.is_first_attempt else _SHORTEST_RETENTION_MS


def _missing(batch: CheckpointBatch) -> MarkerMissing:
    return MarkerMissing(
        f"{_stopped(batch)}: the query has no marker, so klamm can't tell whether the topics have this micro-batch. "
        "The marker expired (a broker keeps it for offsets.retention.minutes after the last micro-batch), or it was "
        f"deleted (the group {group_of(batch.query_id)}, or the topic that it is committed for), or the query wrote "
        "its earlier micro-batches to another sink or cluster, with another klamm.sink.marker.topic (by default the "
        "option topic), or without klamm.sink.semantics=exactly-once. "
        f"{_ask_the_user(batch)}"
    )


def _missing_at_first(batch: CheckpointBatch, age: str, terms: MarkerTerms) -> MarkerMissing:
    permission = (
        " No broker tells the sink this time, so the sink assumes "
        f"{'a day' if terms.is_first_attempt else 'the shortest one, a minute'}. With the ACL DESCRIBE_CONFIGS on the "
        "cluster, the sink can find it out."
    )
    return MarkerMissing(
        f"{_stopped(batch)}: the query has no marker, and {age}. An earlier run may have written it, with a marker "
        "that has expired since (a broker keeps it for offsets.retention.minutes)."
        f"{permission if terms.retention_ms is None else ''} {_ask_the_user(batch)}"
    )


def _another_batch(batch: CheckpointBatch, marker: Marker) -> MarkerConflict:
    return MarkerConflict(
        f"{_stopped(batch)}: the topics have another micro-batch {marker.batch_id} of this query, {_written_by(marker)}"
        ". The checkpoint was restored from a copy that is older than that micro-batch, or two copies of the "
        "checkpoint are in use, or the offset log was changed. "
        f"{_go_on(batch, marker)}"
    )


def _older_checkpoint(batch: CheckpointBatch, marker: Marker) -> MarkerConflict:
    return MarkerConflict(
        f"{_stopped(batch)}: the topics already have the micro-batches up to {marker.batch_id} of this query, "
        f"{_written_by(marker)}. The checkpoint was restored from an older copy, or two copies of the checkpoint are "
        "in use, or another run of the query is ahead of this one. "
        f"{_go_on(batch, marker)}"
    )


def _skipped(batch: CheckpointBatch, marker: Marker) -> MarkerConflict:
    return MarkerConflict(
        f"{_stopped(batch)}: the newest micro-batch of this query in the topics is {marker.batch_id}, "
        f"{_written_by(marker)}, so micro-batches are missing in between. The query wrote them to another sink or "
        "without klamm.sink.semantics=exactly-once, or the commit log of the checkpoint was changed, or the cluster "
        f"was restored from an older copy. To recover, {_start_again(batch)}"
    )


def _another_past(batch: CheckpointBatch, marker: Marker) -> MarkerConflict:
    return MarkerConflict(
        f"{_stopped(batch)}: the micro-batch {marker.batch_id} in the topics, {_written_by(marker)}, is not the "
        f"micro-batch {marker.batch_id} of the checkpoint. The checkpoint was restored from an older copy and "
        f"continued with another sink, or two copies of the checkpoint are in use. {_go_on(batch, marker)}"
    )


def _stopped(batch: CheckpointBatch) -> str:
    return f"micro-batch {batch.batch_id} of query {batch.query_id} was not written"


def _written_by(marker: Marker) -> str:
    return f"written by run {marker.run_id}" if marker.run_id else "written by an earlier run"


def _ask_the_user(batch: CheckpointBatch) -> str:
    number = batch.batch_id
    return (
        f"Find out whether the topics have the records of micro-batch {number} (the checkpoint's file offsets/{number} "
        f"has its ends in the sources), and start the query with the option {FirstBatch(batch.query_id, number)} if "
        f"they don't, or {FirstBatch(batch.query_id, number + 1)} if they do"
    )


def _go_on(batch: CheckpointBatch, marker: Marker) -> str:
    return (
        f"If there is a checkpoint that contains this micro-batch {marker.batch_id}, start the query with that "
        f"checkpoint. If there is none, {_start_again(batch)}"
    )


def _start_again(batch: CheckpointBatch) -> str:
    return (
        "compare the topics with the sources, and start the query with a new checkpoint at the right positions. To "
        "continue with this checkpoint although records will be missing or duplicated, delete the group "
        f"{group_of(batch.query_id)} and set the option {FirstBatch(batch.query_id, batch.batch_id)}"
    )


def _plain_time(duration_ms: int) -> str:
    hours = duration_ms // 3_600_000
    return f"{hours // 24} days" if hours >= 48 else f"{hours} hours" if hours >= 2 else f"{duration_ms // 60_000} min"
