"""Each anomaly, planted in a history made by hand, is found and named; what only looks like one is not."""

from __future__ import annotations

import pytest
from tests.checker.analysis.groups import last_fetches
from tests.checker.check import check
from tests.checker.history import Assign, Event, PowerCut, Revoke, RunEnded, Send, entries_of
from tests.checker.planted import committed, ended, fetch, kinds, origins, polled, read, sent, transaction


def test_a_history_without_anything_is_fine() -> None:
    """Nothing was done, nothing is wrong."""
    assert kinds([]) == []


def test_a_history_as_it_should_be() -> None:
    """Plain and transactional records, an abort, two readers, a group that commits."""
    events = [
        *sent((1, 0), (2, 1)),
        *transaction((3, 2), (4, 3)),  # and a marker at 4
        *transaction((5, 5), number=2, commits=False),
        Assign("member", (("r-0", None),), "group"),
        *polled((1, 0), (2, 1), (3, 2), process="member", group="group"),
        *polled((4, 3), process="member", group="group"),
        *committed(4),
        *read((1, 0), (2, 1), (3, 2), (4, 3), uncommitted=[(1, 0), (2, 1), (3, 2), (4, 3), (5, 5)]),
        *fetch(4),
    ]
    assert kinds(events) == []


def test_lost_write() -> None:
    """2 was acknowledged at 1, others read on to 2, and nobody saw it, whichever way they read."""
    assert kinds([*sent((1, 0), (2, 1), (3, 2)), *read((1, 0), (3, 2))]) == ["lost-write", "lost-write"]


def test_lost_write_of_a_committed_transaction() -> None:
    """The record is in the log, and those who read what is committed don't get it."""
    events = [*transaction((1, 0)), *sent((2, 2)), *read((2, 2), uncommitted=[(1, 0), (2, 2)])]
    assert kinds(events) == ["lost-write"]


def test_a_lost_write_is_proved_by_another_part_of_its_transaction() -> None:
    """Nobody heard how the commit ended; 1 was seen, so that it was committed, and 2 has to be there."""
    events = [
        *sent((1, 0), (2, 1), number=1),
        *ended(1, outcome="unknown"),
        *sent((3, 3)),
        *read((1, 0), (3, 3), uncommitted=[(1, 0), (2, 1), (3, 3)]),
    ]
    assert kinds(events) == ["lost-write", "torn-transaction"]


def test_unseen() -> None:
    """3 was acknowledged behind all that was ever read."""
    assert kinds([*sent((1, 0), (2, 1), (3, 2)), *read((1, 0), (2, 1))]) == ["unseen", "unseen"]


def test_what_nobody_was_told_may_be_there_or_not() -> None:
    """Without an answer both are right: 2 is in the log, 3 isn't."""
    events = [
        *sent((1, 0)),
        *sent((2, None), outcome="unknown"),
        Send("producer", 3, (("r-0", 3),)),
        *read((1, 0), (2, 1)),
    ]
    assert kinds(events) == []


def test_duplicate() -> None:
    """1 is there twice."""
    assert kinds([*sent((1, 0), (2, 1)), *read((1, 0), (2, 1), (1, 2))]) == ["duplicate"]


def test_duplicate_of_a_record_without_an_answer() -> None:
    """Nobody told the producer, but twice is too often in any case."""
    assert kinds([*sent((1, None), outcome="unknown"), *read((1, 0), (1, 1))]) == ["duplicate"]


def test_a_record_in_another_partition_is_a_duplicate() -> None:
    """It was sent to r-0, and is read in r-1 too."""
    assert kinds([*sent((1, 0)), *read((1, 0)), *read((1, 0), partition="r-1")]) == ["duplicate"]


TIMED_OUT = sent((9, None), outcome="unknown", errors=["_MSG_TIMED_OUT"])
"""The client has given up on a record."""
TWICE: list[Event] = [*sent((1, 3), (2, 4)), *read((1, 0), (2, 1), (1, 3), (2, 4))]
"""1 and 2 were sent again, and the answer is that of the second time."""


def test_a_client_that_gave_up_on_a_record_sends_the_others_again_in_a_new_epoch() -> None:
    """By Kafka's own rules: the broker can't recognize them, and each epoch has them in order and once."""
    assert kinds([*TIMED_OUT, *TWICE, *origins((0, 2, 7, 0, 0), (3, 4, 7, 1, 0))]) == []


def test_duplicates_of_one_epoch_are_the_brokers() -> None:
    """Whatever the client gave up on: the broker has to recognize them by their sequence."""
    found = kinds([*TIMED_OUT, *TWICE, *origins((0, 2, 7, 0, 0), (3, 4, 7, 0, 0))])
    assert found == ["duplicate", "duplicate", "sequence-gap"]


def test_duplicates_of_a_client_that_gave_up_on_nothing_are_the_brokers() -> None:
    """Its client begins a new epoch only if the broker gives it cause, as by forgetting the producer."""
    assert kinds([*TWICE, *origins((0, 2, 7, 0, 0), (3, 4, 7, 1, 0))]) == ["duplicate", "duplicate"]


def test_duplicates_without_an_origin_are_the_brokers() -> None:
    """Nobody has seen the headers of the batches: nothing excuses them."""
    assert kinds([*TIMED_OUT, *TWICE])[:2] == ["duplicate", "duplicate"]


def test_duplicates_of_a_transaction_are_no_clients() -> None:
    """A client that has to begin a new epoch aborts its transaction first."""
    events = [
        *TIMED_OUT,
        *sent((1, 3), number=1),
        *ended(1),
        *read((1, 0), (1, 3)),
        *origins((0, 2, 7, 0, 0), (3, 3, 7, 1, 0), (4, 4, 7, 1, -1)),
    ]
    assert kinds(events) == ["duplicate"]


def test_records_of_a_new_epoch_have_an_order_of_their_own() -> None:
    """2 was given up on after it had been written; 1 was written twice, the second time behind 2."""
    events = [
        *sent((1, 2)),
        *sent((2, None), outcome="unknown", errors=["_MSG_TIMED_OUT"]),
        *read((1, 0), (2, 1), (1, 2)),
        *origins((0, 1, 7, 0, 0), (2, 2, 7, 1, 0)),
    ]
    assert kinds(events) == []


def test_nonmonotonic_send_within_an_epoch() -> None:
    """Of one epoch the order has to be that in which they were sent."""
    events = [*sent((1, 1)), *sent((2, 0)), *read((2, 0), (1, 1)), *origins((0, 1, 7, 0, 0))]
    assert kinds(events) == ["nonmonotonic-send"]


def test_sequence_gap() -> None:
    """Batches of one epoch follow one another; those of other producers, and markers, don't matter."""
    assert kinds(origins((0, 1, 7, 0, 0), (2, 2, 8, 0, 5), (3, 3, 7, 0, -1), (4, 4, 7, 0, 2), (5, 5, 7, 1, 0))) == []
    assert kinds(origins((0, 1, 7, 0, 0), (2, 2, 7, 0, 3))) == ["sequence-gap"]
    assert kinds(origins((0, 1, 7, 0, 2**31 - 2), (2, 2, 7, 0, 0))) == []


def test_stale_epoch() -> None:
    """A batch of an epoch that a later one has fenced."""
    assert kinds(origins((0, 0, 7, 1, 0), (1, 1, 7, 0, 0))) == ["stale-epoch"]


def test_offset_gap() -> None:
    """Between two batches there are offsets, and no batch: nothing was compacted."""
    assert kinds(origins((0, 1, -1, -1, -1), (3, 3, -1, -1, -1))) == ["offset-gap"]


def test_different_batches_at_one_offset() -> None:
    """Two readers were told different things of who wrote it."""
    assert kinds([*origins((0, 0, 7, 0, 0)), *origins((0, 0, 8, 0, 0))]) == ["inconsistent-offsets"]


def test_phantom() -> None:
    """Nobody sent 2."""
    assert kinds([*sent((1, 0)), *read((1, 0), (2, 1))]) == ["phantom"]


def test_inconsistent_offsets_between_readers() -> None:
    """One reader finds 1 at 0, another one 2: a log that was cut and written anew."""
    events = [
        *sent((1, None), outcome="unknown"),
        *polled((1, 0), isolation="read_uncommitted"),
        *sent((2, 0), process="another"),
        *read((2, 0)),
    ]
    assert kinds(events) == ["inconsistent-offsets"]


def test_inconsistent_offsets_between_producers() -> None:
    """Two producers were told the same offset."""
    found = kinds([*sent((1, 0)), *sent((2, 0), process="another"), *read((2, 0))])
    assert set(found) == {"inconsistent-offsets", "lost-write"}


def test_aborted_read() -> None:
    """1 was aborted and is read as committed."""
    assert kinds([*transaction((1, 0), commits=False), *read((1, 0))]) == ["aborted-read"]


def test_read_of_a_transaction_that_nobody_asked_to_commit() -> None:
    """Its producer died; whoever ended it had to abort it."""
    assert kinds([*sent((1, 0), number=1), *read((1, 0))]) == ["aborted-read"]


def test_read_of_a_zombie() -> None:
    """A successor had settled the transaction before the commit was asked for, which was refused."""
    events = [*sent((1, 0), number=1), *ended(1, outcome="failed"), *read((1, 0))]
    assert kinds(events) == ["aborted-read"]


def test_aborted_records_are_there_for_those_who_read_all() -> None:
    """An aborted record is no anomaly with read_uncommitted, and is not missed with read_committed."""
    assert kinds([*transaction((1, 0), commits=False), *read(uncommitted=[(1, 0)])]) == []


def test_read_of_a_record_that_was_refused() -> None:
    """Its producer was told that it is not there: nobody may see it, whichever way."""
    assert kinds([*sent((1, None), outcome="failed"), *read((1, 0))]) == ["aborted-read", "aborted-read"]


def test_uncommitted_read() -> None:
    """1 was read as committed while its transaction was open; that it was committed later makes it no better."""
    events = [*sent((1, 0), number=1), *polled((1, 0)), *ended(1), *read((1, 0))]
    assert kinds(events) == ["uncommitted-read"]


def test_a_read_before_the_answer_to_the_commit() -> None:
    """From when a commit is asked for on, its records may be seen."""
    asked, answered = ended(1)
    assert kinds([*sent((1, 0), number=1), asked, *polled((1, 0)), answered, *read((1, 0))]) == []


def test_nonmonotonic_send() -> None:
    """The producer's second operation is before its first in the log."""
    assert kinds([*sent((1, 1)), *sent((2, 0)), *read((2, 0), (1, 1))]) == ["nonmonotonic-send"]


def test_internal_nonmonotonic_send() -> None:
    """Within an operation; the offsets are known from who read them."""
    events = [*sent((1, None), (2, None), outcome="unknown"), *read((2, 0), (1, 1))]
    assert kinds(events) == ["int-nonmonotonic-send"]


def test_internal_nonmonotonic_send_in_a_transaction() -> None:
    """Two operations of one transaction."""
    events = [*sent((1, 1), number=1), *sent((2, 0), number=1), *ended(1), *read((2, 0), (1, 1))]
    assert kinds(events) == ["int-nonmonotonic-send"]


def test_two_producers_have_no_order() -> None:
    """Only what one producer sends is ordered, partition by partition."""
    events = [*sent((1, 1)), *sent((2, 0), process="another"), *sent((3, 0), partition="r-1")]
    assert kinds([*events, *read((2, 0), (1, 1)), *read((3, 0), partition="r-1")]) == []


LOG: list[Event] = [*sent((1, 0), (2, 1), (3, 2), (4, 3)), *read((1, 0), (2, 1), (3, 2), (4, 3))]


def test_poll_skip() -> None:
    """Two polls of a consumer, and 2 between them."""
    assert kinds([*LOG, *polled((1, 0)), *polled((3, 2))]) == ["poll-skip"]


def test_internal_poll_skip() -> None:
    """The same within one poll."""
    assert kinds([*LOG, *polled((1, 0), (3, 2))]) == ["int-poll-skip"]


def test_nonmonotonic_poll() -> None:
    """2 comes a second time, and that in another poll."""
    assert kinds([*LOG, *polled((1, 0), (2, 1)), *polled((2, 1), (3, 2))]) == ["nonmonotonic-poll"]


def test_internal_nonmonotonic_poll() -> None:
    """2 before 1."""
    assert kinds([*LOG, *polled((2, 1), (1, 0))]) == ["int-nonmonotonic-poll"]


def test_poll_skip_after_an_assignment() -> None:
    """It was to begin at 1, and began at 2."""
    assert kinds([*LOG, Assign("consumer", (("r-0", 1),)), *polled((3, 2))]) == ["poll-skip"]


def test_nonmonotonic_poll_after_an_assignment() -> None:
    """It was to begin at 1, and began at 0."""
    assert kinds([*LOG, Assign("consumer", (("r-0", 1),)), *polled((1, 0))]) == ["nonmonotonic-poll"]


@pytest.mark.parametrize("between", [Assign("consumer", (("r-0", 0),)), Revoke("consumer", ("r-0",))])
def test_positions_begin_anew_with_an_assignment(between: Event) -> None:
    """Whoever is told to read elsewhere, or has lost the partition, skips nothing and repeats nothing."""
    assert kinds([*LOG, *polled((1, 0), (2, 1)), between, *polled((1, 0), (2, 1))]) == []


def test_a_consumer_of_committed_records_skips_others() -> None:
    """An aborted record in between is nothing that could be skipped; for who reads all it is."""
    events = [
        *sent((1, 0)),
        *transaction((2, 1), commits=False),
        *sent((3, 3)),
        *read((1, 0), (3, 3), uncommitted=[(1, 0), (2, 1), (3, 3)]),
    ]
    assert kinds([*events, *polled((1, 0), (3, 3))]) == []
    assert kinds([*events, *polled((1, 0), (3, 3), isolation="read_uncommitted")]) == ["int-poll-skip"]


def test_torn_transaction() -> None:
    """Committed or not, nobody knows; but the part in r-0 is there and the part in r-1, unanswered, is not."""
    events = [
        *sent((1, 0), number=1),
        Send("producer", 2, (("r-1", 2),), 1),
        *ended(1, outcome="unknown"),
        *read((1, 0)),
    ]
    found = kinds(events)
    assert "torn-transaction" in found
    assert set(found) == {"torn-transaction", "unseen"}


@pytest.mark.parametrize("is_there", [True, False])
def test_a_transaction_of_unknown_outcome_is_there_or_not(is_there: bool) -> None:
    """All of it, or nothing."""
    events = [*sent((1, 0), (2, 1), number=1), *ended(1, outcome="unknown")]
    both = [(1, 0), (2, 1)]
    assert kinds([*events, *read(*(both if is_there else ()), uncommitted=both)]) == []


GROUP_READS: list[Event] = [
    Assign("member", (("r-0", None),), "group"),
    *polled((1, 0), (2, 1), (3, 2), (4, 3), process="member", group="group"),
]


def test_lost_commit() -> None:
    """4 was acknowledged, 2 is what is there."""
    events = [*LOG, *GROUP_READS, *committed(2), *committed(4, operation=1), *fetch(2)]
    assert kinds(events) == ["group-unread", "lost-commit"]


def test_commits_that_are_all_gone() -> None:
    """Nothing is there of what was acknowledged."""
    assert kinds([*LOG, *GROUP_READS, *committed(4), *fetch(None)]) == ["group-unread", "lost-commit"]


def test_a_commit_that_nobody_made() -> None:
    """3 is between two that were committed, and nobody's."""
    events = [*LOG, *GROUP_READS, *committed(2), *committed(4, outcome="unknown", operation=1), *fetch(3)]
    assert kinds(events) == ["group-unread", "lost-commit"]


def test_lost_commit_that_shows_in_the_next_owner() -> None:
    """4 was acknowledged, and then a member was given the partition and began before."""
    events = [
        *LOG,
        *GROUP_READS,
        *committed(4),
        Assign("successor", (("r-0", None),), "group"),
        *polled((3, 2), (4, 3), process="successor", group="group"),
        *fetch(4),
    ]
    assert kinds(events) == ["lost-commit"]


def test_a_member_begins_again_where_nothing_was_acknowledged() -> None:
    """A commit without an answer, and one that came after the assignment, bind nobody."""
    events = [
        *LOG,
        *GROUP_READS,
        *committed(4, outcome="unknown"),
        Assign("successor", (("r-0", None),), "group"),
        *committed(4, operation=1),
        *polled((3, 2), (4, 3), process="successor", group="group"),
        *fetch(4),
    ]
    assert kinds(events) == []


def test_a_transactions_offsets_are_not_there_before_it_is_committed() -> None:
    """An aborted transaction's offsets bind nobody; a committed one's do."""
    for commits, expected in ((False, []), (True, ["lost-commit"])):
        events = [
            *LOG,
            *GROUP_READS,
            *committed(2),
            *committed(4, process="producer", number=7, operation=1),
            *ended(7, commits=commits),
            Assign("successor", (("r-0", None),), "group"),
            *polled((3, 2), (4, 3), process="successor", group="group"),
            *committed(4, process="successor"),
            *fetch(4),
        ]
        assert kinds(events) == expected


def test_group_skip() -> None:
    """Between what one member read and its successor began with there is a record that no member has seen."""
    events = [
        *LOG,
        Assign("member", (("r-0", None),), "group"),
        *polled((1, 0), process="member", group="group"),
        Assign("successor", (("r-0", None),), "group"),
        *polled((3, 2), (4, 3), process="successor", group="group"),
        *committed(4, process="successor"),
        *fetch(4),
    ]
    assert kinds(events) == ["group-skip"]


def test_group_unread() -> None:
    """At the end the group has not come to the end of the log."""
    assert kinds([*LOG, *GROUP_READS, *committed(3), *fetch(3)]) == ["group-unread"]


def copies(*, commits: bool = True, outcome: str = "ok", source: int = 4, offset: int = 4) -> list[Event]:
    """A transaction that makes 9 of `source`, and commits that all of the log was read."""
    assert outcome in ("ok", "unknown")
    return [
        *sent((9, 0), process="producer", partition="out-0", number=7, sources=[source]),
        *committed(offset, process="producer", number=7, operation=1),
        *ended(7, commits=commits, outcome="ok" if outcome == "ok" else "unknown"),
    ]


BEFORE: list[Event] = [
    *LOG,
    *GROUP_READS,
    *sent((6, 1), (7, 2), (8, 3), process="before", partition="out-0", number=1, sources=[1, 2, 3]),
    *committed(3, process="before", number=1, operation=2),
    *ended(1, process="before"),
]
OUTPUTS = ((9, 0), (6, 1), (7, 2), (8, 3))


def test_processing_exactly_once() -> None:
    """Each input has its output, and is committed."""
    assert kinds([*BEFORE, *copies(), *read(*OUTPUTS, partition="out-0"), *fetch(4)]) == []


def test_processed_twice() -> None:
    """3 has two outputs, 4 has none."""
    events = [*BEFORE, *copies(source=3), *read(*OUTPUTS, partition="out-0"), *fetch(4)]
    assert kinds(events) == ["processed-twice", "torn-offsets"]


def test_an_input_that_its_client_wrote_twice_has_two_outputs() -> None:
    """The copy at 4 is an input of its own; without its output it is torn, with three outputs one is too many."""
    twice: list[Event] = [
        *sent((9, None), outcome="unknown", errors=["_MSG_TIMED_OUT"], process="impatient"),
        *sent((3, 3), process="impatient"),
        *read((1, 0), (3, 1), (2, 2), (3, 3)),
        *sent((1, 0), (2, 2)),
        *origins((0, 0, 7, 0, 0), (1, 1, 8, 0, 0), (2, 2, 7, 0, 1), (3, 3, 8, 1, 0)),
        Assign("member", (("r-0", None),), "group"),
        *polled((1, 0), (3, 1), (2, 2), (3, 3), process="member", group="group"),
    ]

    def made(*sources: int) -> list[Event]:
        values = tuple((offset + 10, offset) for offset in range(len(sources)))
        return [
            *sent(*values, process="before", partition="out-0", number=1, sources=sources),
            *committed(4, process="before", number=1, operation=2),
            *ended(1, process="before"),
            *read(*values, partition="out-0"),
            *fetch(4),
        ]

    assert kinds([*twice, *made(1, 3, 2, 3)]) == []
    assert kinds([*twice, *made(1, 3, 2)]) == ["torn-offsets"]
    assert kinds([*twice, *made(1, 3, 2, 3, 3)]) == ["processed-twice"]


def test_an_output_without_its_offset() -> None:
    """Nobody knows whether it was committed: its record is there, its offset isn't."""
    events = [*BEFORE, *copies(outcome="unknown"), *read(*OUTPUTS, partition="out-0"), *fetch(3)]
    assert kinds(events) == ["group-unread", "torn-offsets"]


def test_an_offset_without_its_output() -> None:
    """The other way round: 4 will never be processed."""
    last = read(*OUTPUTS[1:], uncommitted=OUTPUTS, partition="out-0")
    events = [*BEFORE, *copies(outcome="unknown"), *last, *fetch(4)]
    assert kinds(events) == ["torn-offsets"]


def test_anomalies_name_their_events() -> None:
    """The events that show it are named by their places, and are those of the record that it is about."""
    facts, (anomaly, *_) = check(entries_of([*sent((1, 0), (2, 1)), *sent((3, 2)), *read((1, 0), (3, 2))]))
    assert anomaly.kind == "lost-write"
    assert anomaly.indexes == (0, 1)
    assert anomaly.values == {2}
    assert last_fetches(facts) == {}


def test_a_history_with_a_value_twice_says_nothing() -> None:
    """The checks rest on values that tell records apart."""
    with pytest.raises(ValueError, match="value 1 was sent twice"):
        kinds([*sent((1, 0)), *sent((1, 1), process="another")])


# --- runs that end early --------------------------------------------------------------------------------------------


def test_a_record_that_was_passed_is_missing_also_when_a_run_ended_early() -> None:
    """2 is not there, and 3 is."""
    events = [*sent((1, 0), (2, 1), (3, 2)), *read((1, 0), (3, 2))]
    assert kinds(events, ended_early=True) == ["lost-write", "lost-write"]


def test_what_nobody_has_come_to_may_be_there_when_a_run_ended_early() -> None:
    """Records, the rest of a transaction, outputs of processors, and what a group has left to read."""
    assert kinds([*sent((1, 0), (2, 1)), *read((1, 0))], ended_early=True) == []
    torn = [*sent((1, 0), number=1), Send("producer", 2, (("r-1", 2),), 1), *ended(1), *read((1, 0))]
    assert kinds(torn, ended_early=True) == []
    assert kinds([*LOG, *GROUP_READS, *committed(3), *fetch(3)], ended_early=True) == []
    events = [*BEFORE, *copies(outcome="unknown"), *read(*OUTPUTS, partition="out-0"), *fetch(3)]
    assert kinds(events, ended_early=True) == []


def test_a_torn_transaction_that_was_passed_is_one_also_when_a_run_ended_early() -> None:
    """1 was read, 2 is before what was read, and was left out."""
    events = [*sent((1, 0), (2, 1), number=1), *ended(1, outcome="unknown"), *sent((3, 3)), *read((1, 0), (3, 3))]
    assert "torn-transaction" in kinds(events, ended_early=True)


def test_the_end_of_a_run_says_why() -> None:
    """Its last event, or that there is none."""
    facts, _ = check(entries_of([RunEnded("run")]))
    assert (facts.is_whole, facts.end_reason) == (True, "")
    facts, _ = check(entries_of([RunEnded("run", "interrupted")]))
    assert (facts.is_whole, facts.end_reason) == (False, "interrupted")
    facts, _ = check(entries_of([]))
    assert (facts.is_whole, facts.end_reason) == (False, "the history was cut off")


# --- loss of power --------------------------------------------------------------------------------------------------

CUT = PowerCut("nemesis", (("r-0", 2),))
"""Offsets 0 and 1 were synced."""


def last(*records: tuple[int, int]) -> list[Event]:
    """What is there at the end, for both isolation levels."""
    return read(*records)


def test_what_was_not_synced_may_be_lost_with_the_power() -> None:
    """3 and 4 were acknowledged, and were not on the disk: they may be there or not, and others be in their places."""
    before = sent((1, 0), (2, 1), (3, 2), (4, 3))
    for rest in ([], [(3, 2)], [(3, 2), (4, 3)], [(5, 2)]):
        events = [*before, CUT, *sent((5, 2 if rest == [(5, 2)] else None), outcome="unknown")]
        assert kinds([*events, *last((1, 0), (2, 1), *rest)]) == []


def test_what_was_synced_must_not_be_lost_with_the_power() -> None:
    """2 was on the disk."""
    assert kinds([*sent((1, 0), (2, 1), (3, 2)), CUT, *last((1, 0), (3, 2))]) == ["lost-write"]
    assert kinds([*sent((1, 0), (2, 1), (3, 2)), CUT, *last((1, 0))]) == ["unseen"]


def test_what_was_sent_after_the_last_loss_of_power_must_be_there() -> None:
    """No later one can have taken it."""
    assert kinds([CUT, *sent((1, 0), (2, 1), (3, 2)), *last((1, 0), (2, 1))]) == ["unseen"]


def test_what_was_read_before_a_loss_of_power_binds_nobody() -> None:
    """A consumer has seen 3, which was lost; another record is in its place, and 3 was sent again."""
    events = [
        *sent((1, 0), (2, 1), (3, 3)),
        *polled((1, 0), (2, 1), (3, 2)),
        CUT,
        *sent((4, 2), process="another"),
        *polled((2, 1)),
        *last((1, 0), (2, 1), (4, 2), (3, 3)),
    ]
    assert kinds(events) == []


def test_a_log_that_lost_its_end_has_no_phantoms_and_no_duplicates() -> None:
    """Nothing that nobody sent, and nothing twice."""
    before = sent((1, 0), (2, 1))
    assert kinds([*before, CUT, *last((1, 0), (2, 1), (7, 2))]) == ["phantom"]
    assert kinds([*before, CUT, *last((1, 0), (2, 1), (2, 2))]) == ["duplicate"]
    assert "inconsistent-offsets" in kinds([*before, CUT, *last((2, 0), (1, 1))])


def test_a_producer_epoch_that_is_given_twice() -> None:
    """The coordinator has forgotten that it gave epoch 1. Given again, its first batch is taken for the one that is in
    the log from before: 2 is acknowledged at the place of 1, and not written."""
    events = [
        *sent((1, 0), number=1, process="first"),
        CUT,
        *sent((2, 0), number=1, process="second"),
        *ended(1, process="second"),
        *last((1, 0)),
        *origins((0, 0, 7, 1, 0), process="last-origins"),
    ]
    assert kinds(events) == []


def test_groups_and_transactions_may_suffer_from_a_loss_of_power() -> None:
    """Where their coordinators may forget, nothing of them is certain."""
    events = [*LOG, *GROUP_READS, *committed(4), CUT, *fetch(2), *last((1, 0), (2, 1), (3, 2), (4, 3))]
    assert kinds(events) == []
