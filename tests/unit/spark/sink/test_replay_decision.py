"""Tests whether a micro-batch is sent or dropped: all cases, the error texts, and a query that crashes at every
point."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.client.committed_offsets import Commit
from klamm.errors import KlammError
from klamm.protocol.types import Millis, Offset
from klamm.spark.sink.checkpoint_batch import CheckpointBatch, offsets_hash
from klamm.spark.sink.first_batch import FirstBatch
from klamm.spark.sink.marker import Marker
from klamm.spark.sink.marker_errors import MarkerConflict, MarkerDamaged, MarkerMissing
from klamm.spark.sink.replay_decision import MarkerTerms, Replay, decide, has_landed, is_of_another_run, marker_for

PLANNED_MS = 1_795_494_539_888
HOUR_MS = 3_600_000
NOW = MarkerTerms(Millis(PLANNED_MS + 1000), None, is_first_attempt=False)


def hash_of(name: str) -> str:
    return offsets_hash(name.encode())


def batch(number: int, plan: str | None = None, previous: str | None = None) -> CheckpointBatch:
    """Returns the micro-batch N of the checkpoint; its plan is "N" by default."""
    before = f"{number - 1}" if previous is None else previous
    return CheckpointBatch(
        "q",
        number,
        "now",
        hash_of(plan or f"{number}"),
        None if before == "gone" else hash_of(before),
        Millis(PLANNED_MS),
    )


def marker(number: int, plan: str | None = None, run: str = "before") -> Marker:
    return Marker(number, run, hash_of(plan or f"{number}"))


@pytest.mark.parametrize(
    ("given", "found", "decision"),
    [
        (batch(0), None, Replay.SEND),
        (batch(0), marker(0), Replay.DROP),
        (batch(1), marker(0), Replay.SEND),
        (batch(7), marker(6), Replay.SEND),
        (batch(7, previous="gone"), marker(6), Replay.SEND),
        (batch(7), marker(7), Replay.DROP),
        (batch(7), marker(7, run="now"), Replay.DROP),
        # The files of earlier micro-batches do not matter if the topics have the micro-batch itself.
        (batch(7, previous="other"), marker(7), Replay.DROP),
    ],
)
def test_marker_and_checkpoint_that_agree(given: CheckpointBatch, found: Marker | None, decision: Replay) -> None:
    """A micro-batch is dropped if the marker names it, and sent if the marker names the micro-batch directly before
    it."""
    assert decide(given, found, NOW) is decision


@pytest.mark.parametrize(
    ("given", "found", "text"),
    [
        (
            batch(7, plan="other"),
            marker(7),
            "the topics have another micro-batch 7 of this query, written by run before",
        ),
        (batch(0, plan="other"), marker(0), "the topics have another micro-batch 0"),
        (batch(6), marker(7), "the topics already have the micro-batches up to 7 of this query"),
        (batch(0), marker(7), "the topics already have the micro-batches up to 7 of this query"),
        (batch(8), marker(6), "the newest micro-batch of this query in the topics is 6"),
        (batch(8, previous="gone"), marker(6), "the newest micro-batch of this query in the topics is 6"),
        (batch(7, previous="other"), marker(6), "is not the micro-batch 6 of the checkpoint"),
    ],
)
def test_marker_and_checkpoint_that_disagree(given: CheckpointBatch, found: Marker, text: str) -> None:
    """A conflict error says what happened and what to do; the option `klamm.sink.first.batch` does not overrule a
    marker."""
    with pytest.raises(MarkerConflict, match=text) as refused:
        decide(given, found, NOW)
    said = str(refused.value)
    assert said.startswith(f"micro-batch {given.batch_id} of query q was not written: ")
    assert f"delete the group klamm.sink.q and set the option klamm.sink.first.batch=q/{given.batch_id}" in said
    with pytest.raises(MarkerConflict):
        decide(given, found, NOW._replace(first_batch=FirstBatch("q", given.batch_id)))
    with pytest.raises(MarkerConflict):
        decide(given, found, NOW._replace(first_batch=FirstBatch("q", given.batch_id + 1)))


@pytest.mark.parametrize("number", [1, 2, 100])
def test_a_missing_marker_after_the_first_micro_batch(number: int) -> None:
    """The error for a missing marker gives the value of the option for both cases: the topics have the micro-batch,
    or not."""
    with pytest.raises(MarkerMissing, match="the query has no marker") as refused:
        decide(batch(number), None, NOW)
    said = str(refused.value)
    assert (
        f"klamm.sink.first.batch=q/{number} if they don't, or klamm.sink.first.batch=q/{number + 1} if they do" in said
    )
    assert "offsets.retention.minutes" in said
    assert "the group klamm.sink.q" in said


@pytest.mark.parametrize("number", [0, 1, 21])
def test_the_user_says_what_the_topics_have(number: int) -> None:
    """The option applies to a missing marker at its own micro-batch (send) and the one before (drop), and to no
    other."""
    terms = NOW._replace(first_batch=FirstBatch("q", number))
    assert decide(batch(number), None, terms) is Replay.SEND
    if number > 0:
        assert decide(batch(number - 1), None, terms) is Replay.DROP
    for other in {number - 2, number + 1, number + 20} - {-2, -1, 0}:
        with pytest.raises(MarkerMissing):
            decide(batch(other), None, terms)


def test_what_the_user_says_of_another_query_does_not_count() -> None:
    """An option that stays in a program drops nothing of the next query, whose checkpoint is new."""
    for number in (0, 1):
        terms = NOW._replace(first_batch=FirstBatch("former", number))
        assert decide(batch(0), None, terms) is Replay.SEND
        with pytest.raises(MarkerMissing):
            decide(batch(1), None, terms)


@pytest.mark.parametrize(
    ("age_ms", "retention_ms", "is_first_attempt", "is_refused"),
    [
        (23 * HOUR_MS, None, True, False),
        (24 * HOUR_MS, None, True, True),
        (59_000, None, False, False),
        (60_000, None, False, True),
        (6 * 24 * HOUR_MS, 7 * 24 * HOUR_MS, False, False),
        (7 * 24 * HOUR_MS, 7 * 24 * HOUR_MS, False, True),
        (7 * 24 * HOUR_MS, 7 * 24 * HOUR_MS, True, True),
        (59_000, 60_000, False, False),
        (60_000, 60_000, False, True),
        (-HOUR_MS, 60_000, False, False),  # another driver's clock
    ],
)
def test_an_old_first_micro_batch_may_have_lost_its_marker(
    age_ms: int, retention_ms: int | None, is_first_attempt: bool, is_refused: bool
) -> None:
    """An old first micro-batch without a marker is refused, because its marker may have expired before the query
    restarted. If no broker tells the retention, the first attempt assumes a day, and a repetition a minute."""
    known = None if retention_ms is None else Millis(retention_ms)
    terms = MarkerTerms(Millis(PLANNED_MS + age_ms), known, is_first_attempt)
    if is_refused:
        with pytest.raises(MarkerMissing, match=r"klamm\.sink\.first\.batch=q/0 if they don't"):
            decide(batch(0), None, terms)
    else:
        assert decide(batch(0), None, terms) is Replay.SEND
    assert decide(batch(0), None, terms._replace(first_batch=FirstBatch("q", 0))) is Replay.SEND
    assert decide(batch(0), None, terms._replace(first_batch=FirstBatch("q", 1))) is Replay.DROP
    assert decide(batch(0), marker(0), terms) is Replay.DROP


@pytest.mark.parametrize("retention_ms", [None, Millis(HOUR_MS)])
def test_a_first_micro_batch_of_unknown_age(retention_ms: Millis | None) -> None:
    """A later Spark version may write the time of the plan elsewhere. Then the first attempt sends micro-batch 0, and
    a repetition stops, because its marker may have expired."""
    given = batch(0)._replace(planned_ms=None)
    terms = NOW._replace(retention_ms=retention_ms)
    assert decide(given, None, terms._replace(is_first_attempt=True)) is Replay.SEND
    with pytest.raises(MarkerMissing, match="does not say when Spark planned this micro-batch"):
        decide(given, None, terms)
    assert decide(given, None, terms._replace(first_batch=FirstBatch("q", 0))) is Replay.SEND


@pytest.mark.parametrize(
    ("is_first_attempt", "assumed"), [(True, "assumes a day"), (False, "assumes the shortest one, a minute")]
)
def test_the_permission_that_would_tell_the_retention(is_first_attempt: bool, assumed: str) -> None:
    """If no broker tells the retention, the error names the ACL and the assumption; otherwise it does not."""
    terms = MarkerTerms(Millis(PLANNED_MS + 8 * 24 * HOUR_MS), None, is_first_attempt)
    with pytest.raises(MarkerMissing, match=f"{assumed}.*DESCRIBE_CONFIGS on the cluster"):
        decide(batch(0), None, terms)
    with pytest.raises(MarkerMissing) as refused:
        decide(batch(0), None, terms._replace(retention_ms=Millis(HOUR_MS)))
    assert "DESCRIBE_CONFIGS" not in str(refused.value)


@pytest.mark.parametrize(
    ("age_ms", "text"), [(60_000, "1 min ago"), (5 * HOUR_MS, "5 hours ago"), (72 * HOUR_MS, "3 days ago")]
)
def test_the_age_is_readable(age_ms: int, text: str) -> None:
    """The error gives the age of a micro-batch in minutes, hours or days."""
    with pytest.raises(MarkerMissing, match=text):
        decide(batch(0), None, MarkerTerms(Millis(PLANNED_MS + age_ms), Millis(1), is_first_attempt=False))


def test_a_marker_of_an_unknown_run() -> None:
    """The error says "an earlier run" if the marker has no run id; a micro-batch without tasks does not know its
    run."""
    with pytest.raises(MarkerConflict, match="written by an earlier run"):
        decide(batch(7), marker(9, run=""), NOW)


def test_whether_a_failed_write_has_landed() -> None:
    """A failed write has landed only if the marker names the same micro-batch with the same plan."""
    assert has_landed(batch(7), marker(7))
    assert not has_landed(batch(7), None)
    assert not has_landed(batch(7), marker(6))
    assert not has_landed(batch(7), marker(8))
    assert not has_landed(batch(7, plan="other"), marker(7))


def test_whether_another_run_goes_on() -> None:
    """Another run is active if that run wrote this micro-batch or a later one, also from a copy of the checkpoint."""
    assert is_of_another_run(batch(7), marker(7))
    assert is_of_another_run(batch(7), marker(8))
    assert is_of_another_run(batch(7, plan="other"), marker(7))
    assert not is_of_another_run(batch(7), None)
    assert not is_of_another_run(batch(7), marker(6))
    assert not is_of_another_run(batch(7), marker(7, run="now"))
    # A micro-batch without tasks has no run id.
    assert not is_of_another_run(batch(7)._replace(run_id=""), marker(7))


def test_a_marker_that_was_overwritten() -> None:
    """The error for an overwritten marker shows the commit and says what to do."""
    assert marker_for(batch(7), None) is None
    assert marker_for(batch(7), marker(6).to_commit()) == marker(6)
    with pytest.raises(MarkerDamaged) as refused:
        marker_for(batch(7), Commit(Offset(5), "reset"))
    said = str(refused.value)
    assert said.startswith("micro-batch 7 of query q was not written: the group klamm.sink.q has offset 5 with the ")
    assert "delete the group" in said
    assert "klamm.sink.first.batch=q/7 if they don't" in said


class Query:
    """A query with Spark's rules (plan, write, record as finished) and a topic that takes records and marker
    atomically."""

    def __init__(self) -> None:
        self.plans: list[str] = []
        self.finished = 0
        self.topic: list[str] = []
        self.marker: Marker | None = None
        self.planned = 0

    def run_batch(self, crash: str) -> None:
        """Runs the next micro-batch, or repeats the last one, and crashes at the given point."""
        number = self.finished
        if len(self.plans) == number:
            self.planned += 1
            self.plans.append(f"plan {self.planned}")
        if crash == "before the transaction":
            return
        previous = hash_of(self.plans[number - 1]) if number > 0 else None
        given = CheckpointBatch("q", number, "run", hash_of(self.plans[number]), previous, Millis(PLANNED_MS))
        if decide(given, self.marker, NOW) is Replay.SEND and crash != "within the transaction":
            self.topic.append(self.plans[number])
            self.marker = Marker(number, "run", given.offsets_hash)
        if crash == "none":
            self.finished += 1


CRASHES = ("none", "before the transaction", "within the transaction", "after the transaction")


@given(crashes=st.lists(st.sampled_from(CRASHES)))
def test_a_query_that_crashes_anywhere_writes_each_micro_batch_once(crashes: list[str]) -> None:
    """A query that keeps its checkpoint loses no record, writes no record twice, and stops with no error."""
    query = Query()
    for crash in crashes:
        query.run_batch(crash)
    query.run_batch("none")
    assert query.topic == query.plans


@given(
    crashes=st.lists(
        st.tuples(st.sampled_from([*CRASHES, "none", "none"]), st.sampled_from(["keep", "copy", "restore"])),
        max_size=30,
    )
)
def test_a_restored_copy_never_writes_twice(crashes: list[tuple[str, str]]) -> None:
    """After the restore of any copy of the checkpoint, the topic never gets two micro-batches with the same id; the
    query stops instead."""
    query = Query()
    copy: tuple[list[str], int] = ([], 0)
    for crash, step in crashes:
        if step == "copy":
            copy = (list(query.plans), query.finished)
        if step == "restore":
            query.plans, query.finished = list(copy[0]), copy[1]
        before = query.marker
        try:
            query.run_batch(crash)
        except KlammError:
            assert query.marker == before
        if query.marker is not None and query.marker != before:
            assert query.marker.batch_id == (before.batch_id + 1 if before is not None else 0)
    assert query.marker is None or len(query.topic) == query.marker.batch_id + 1
