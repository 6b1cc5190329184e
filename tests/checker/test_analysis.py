"""Tests that each anomaly planted in a history made by hand is found and named, and that legal events are not."""

from __future__ import annotations

import pytest
from tests.checker.analysis.groups import last_fetches
from tests.checker.check import check
from tests.checker.history import Assign, EndOffset, Event, PowerCut, Problem, Revoke, RunEnded, Send, entries_of
from tests.checker.planted import committed, ended, fetch, kinds, origins, polled, read, sent, transaction


def test_a_history_without_anything_is_fine() -> None:
    """An empty history has no anomaly."""
    assert kinds([]) == []


def test_a_history_as_it_should_be() -> None:
    """Plain and transactional records, an abort, two readers and a group that commits are no anomaly."""
    events = [
        *sent((1, 0), (2, 1)),
        *transaction((3, 2), (4, 3)),  # the commit marker is at 4
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
    """A record that was acknowledged at 1 and that no reader of offset 2 saw is lost at both isolation levels."""
    assert kinds([*sent((1, 0), (2, 1), (3, 2)), *read((1, 0), (3, 2))]) == ["lost-write", "lost-write"]


def test_lost_write_of_a_committed_transaction() -> None:
    """A committed record that is in the log, but that consumers with read_committed do not receive, is a lost write."""
    events = [*transaction((1, 0)), *sent((2, 2)), *read((2, 2), uncommitted=[(1, 0), (2, 2)])]
    assert kinds(events) == ["lost-write"]


def test_a_lost_write_is_proved_by_another_part_of_its_transaction() -> None:
    """If a commit has an unknown outcome, one record that was seen proves the commit, and the other record is lost."""
    events = [
        *sent((1, 0), (2, 1), number=1),
        *ended(1, outcome="unknown"),
        *sent((3, 3)),
        *read((1, 0), (3, 3), uncommitted=[(1, 0), (2, 1), (3, 3)]),
    ]
    assert kinds(events) == ["lost-write", "torn-transaction"]


def test_unseen() -> None:
    """An acknowledged record behind all offsets that were read is unseen."""
    assert kinds([*sent((1, 0), (2, 1), (3, 2)), *read((1, 0), (2, 1))]) == ["unseen", "unseen"]


def test_what_nobody_was_told_may_be_there_or_not() -> None:
    """A record without an answer may be in the log (2) or not (3)."""
    events = [
        *sent((1, 0)),
        *sent((2, None), outcome="unknown"),
        Send("producer", 3, (("r-0", 3),)),
        *read((1, 0), (2, 1)),
    ]
    assert kinds(events) == []


def test_duplicate() -> None:
    """A record that was read at two offsets is a duplicate."""
    assert kinds([*sent((1, 0), (2, 1)), *read((1, 0), (2, 1), (1, 2))]) == ["duplicate"]


def test_duplicate_of_a_record_without_an_answer() -> None:
    """A record without an answer that was read at two offsets is a duplicate too."""
    assert kinds([*sent((1, None), outcome="unknown"), *read((1, 0), (1, 1))]) == ["duplicate"]


def test_a_record_in_another_partition_is_a_duplicate() -> None:
    """A record that was sent to r-0 and is also read in r-1 is a duplicate."""
    assert kinds([*sent((1, 0)), *read((1, 0)), *read((1, 0), partition="r-1")]) == ["duplicate"]


TIMED_OUT = sent((9, None), outcome="unknown", errors=["_MSG_TIMED_OUT"])
"""A client that has given up on a record."""
TWICE: list[Event] = [*sent((1, 3), (2, 4)), *read((1, 0), (2, 1), (1, 3), (2, 4))]
"""Records 1 and 2 were sent twice; the producer's answer names the second offsets."""


def test_a_client_that_gave_up_on_a_record_sends_the_others_again_in_a_new_epoch() -> None:
    """Copies in a new epoch of a client that gave up on a record are no duplicates, by Kafka's rules."""
    assert kinds([*TIMED_OUT, *TWICE, *origins((0, 2, 7, 0, 0), (3, 4, 7, 1, 0))]) == []


def test_duplicates_of_one_epoch_are_the_brokers() -> None:
    """Two copies in one epoch are duplicates: the broker has to recognize the second one by its sequence."""
    found = kinds([*TIMED_OUT, *TWICE, *origins((0, 2, 7, 0, 0), (3, 4, 7, 0, 0))])
    assert found == ["duplicate", "duplicate", "sequence-gap"]


def test_duplicates_of_a_client_that_gave_up_on_nothing_are_the_brokers() -> None:
    """Copies of a client that gave up on no record are duplicates: it begins a new epoch only after a broker error."""
    assert kinds([*TWICE, *origins((0, 2, 7, 0, 0), (3, 4, 7, 1, 0))]) == ["duplicate", "duplicate"]


def test_duplicates_without_an_origin_are_the_brokers() -> None:
    """Two copies whose batch headers were not read are duplicates."""
    assert kinds([*TIMED_OUT, *TWICE])[:2] == ["duplicate", "duplicate"]


def test_duplicates_of_a_transaction_are_no_clients() -> None:
    """Two copies of a transaction's record are duplicates, because a client aborts before it begins a new epoch."""
    events = [
        *TIMED_OUT,
        *sent((1, 3), number=1),
        *ended(1),
        *read((1, 0), (1, 3)),
        *origins((0, 2, 7, 0, 0), (3, 3, 7, 1, 0), (4, 4, 7, 1, -1)),
    ]
    assert kinds(events) == ["duplicate"]


def test_records_of_a_new_epoch_have_an_order_of_their_own() -> None:
    """Each epoch has its own order: after the client gives up on 2, it may write 1 again behind 2."""
    events = [
        *sent((1, 2)),
        *sent((2, None), outcome="unknown", errors=["_MSG_TIMED_OUT"]),
        *read((1, 0), (2, 1), (1, 2)),
        *origins((0, 1, 7, 0, 0), (2, 2, 7, 1, 0)),
    ]
    assert kinds(events) == []


def test_nonmonotonic_send_within_an_epoch() -> None:
    """Records of one epoch must be in the order in which they were sent."""
    events = [*sent((1, 1)), *sent((2, 0)), *read((2, 0), (1, 1)), *origins((0, 1, 7, 0, 0))]
    assert kinds(events) == ["nonmonotonic-send"]


def test_sequence_gap() -> None:
    """The batches of a producer in one epoch are contiguous; other producers, markers and new epochs do not matter."""
    assert kinds(origins((0, 1, 7, 0, 0), (2, 2, 8, 0, 5), (3, 3, 7, 0, -1), (4, 4, 7, 0, 2), (5, 5, 7, 1, 0))) == []
    assert kinds(origins((0, 1, 7, 0, 0), (2, 2, 7, 0, 3))) == ["sequence-gap"]
    assert kinds(origins((0, 1, 7, 0, 2**31 - 2), (2, 2, 7, 0, 0))) == []


def test_stale_epoch() -> None:
    """A batch of an epoch that a later epoch has fenced is an anomaly."""
    assert kinds(origins((0, 0, 7, 1, 0), (1, 1, 7, 0, 0))) == ["stale-epoch"]


def test_offset_gap() -> None:
    """Offsets between two batches that belong to no batch are a gap, because the log was not compacted."""
    assert kinds(origins((0, 1, -1, -1, -1), (3, 3, -1, -1, -1))) == ["offset-gap"]


def test_different_batches_at_one_offset() -> None:
    """Two different batches at one offset are inconsistent."""
    assert kinds([*origins((0, 0, 7, 0, 0)), *origins((0, 0, 8, 0, 0))]) == ["inconsistent-offsets"]


def test_phantom() -> None:
    """A record that no producer sent (2) is a phantom."""
    assert kinds([*sent((1, 0)), *read((1, 0), (2, 1))]) == ["phantom"]


def test_inconsistent_offsets_between_readers() -> None:
    """Two readers that find different values at one offset are an anomaly: the log was truncated and written again."""
    events = [
        *sent((1, None), outcome="unknown"),
        *polled((1, 0), isolation="read_uncommitted"),
        *sent((2, 0), process="another"),
        *read((2, 0)),
    ]
    assert kinds(events) == ["inconsistent-offsets"]


def test_inconsistent_offsets_between_producers() -> None:
    """Two producers that get the same offset for different records are an anomaly."""
    found = kinds([*sent((1, 0)), *sent((2, 0), process="another"), *read((2, 0))])
    assert set(found) == {"inconsistent-offsets", "lost-write"}


def test_aborted_read() -> None:
    """An aborted record that is read as committed is an anomaly."""
    assert kinds([*transaction((1, 0), commits=False), *read((1, 0))]) == ["aborted-read"]


def test_read_of_a_transaction_that_nobody_asked_to_commit() -> None:
    """A record is an aborted read if its producer died before it requested a commit."""
    assert kinds([*sent((1, 0), number=1), *read((1, 0))]) == ["aborted-read"]


def test_read_of_a_zombie() -> None:
    """A record is an aborted read if its commit was refused because a successor had ended the transaction."""
    events = [*sent((1, 0), number=1), *ended(1, outcome="failed"), *read((1, 0))]
    assert kinds(events) == ["aborted-read"]


def test_aborted_records_are_there_for_those_who_read_all() -> None:
    """An aborted record may be read with read_uncommitted, and is not missed with read_committed."""
    assert kinds([*transaction((1, 0), commits=False), *read(uncommitted=[(1, 0)])]) == []


def test_read_of_a_record_that_was_refused() -> None:
    """A record that the broker refused must not be read at either isolation level."""
    assert kinds([*sent((1, None), outcome="failed"), *read((1, 0))]) == ["aborted-read", "aborted-read"]


def test_uncommitted_read() -> None:
    """A record that is read as committed while its transaction is open is an anomaly, even if the commit follows."""
    events = [*sent((1, 0), number=1), *polled((1, 0)), *ended(1), *read((1, 0))]
    assert kinds(events) == ["uncommitted-read"]


def test_a_read_before_the_answer_to_the_commit() -> None:
    """A transaction's records may be seen as soon as its commit is requested."""
    asked, answered = ended(1)
    assert kinds([*sent((1, 0), number=1), asked, *polled((1, 0)), answered, *read((1, 0))]) == []


def test_nonmonotonic_send() -> None:
    """A producer's second operation that is before its first in the log is an anomaly."""
    assert kinds([*sent((1, 1)), *sent((2, 0)), *read((2, 0), (1, 1))]) == ["nonmonotonic-send"]


def test_internal_nonmonotonic_send() -> None:
    """Records of one operation in the wrong order are an anomaly, even if only readers know the offsets."""
    events = [*sent((1, None), (2, None), outcome="unknown"), *read((2, 0), (1, 1))]
    assert kinds(events) == ["int-nonmonotonic-send"]


def test_internal_nonmonotonic_send_in_a_transaction() -> None:
    """Two operations of one transaction in the wrong order are an internal anomaly."""
    events = [*sent((1, 1), number=1), *sent((2, 0), number=1), *ended(1), *read((2, 0), (1, 1))]
    assert kinds(events) == ["int-nonmonotonic-send"]


def test_two_producers_have_no_order() -> None:
    """Records of different producers, or in different partitions, have no order."""
    events = [*sent((1, 1)), *sent((2, 0), process="another"), *sent((3, 0), partition="r-1")]
    assert kinds([*events, *read((2, 0), (1, 1)), *read((3, 0), partition="r-1")]) == []


LOG: list[Event] = [*sent((1, 0), (2, 1), (3, 2), (4, 3)), *read((1, 0), (2, 1), (3, 2), (4, 3))]


def test_poll_skip() -> None:
    """A record that a consumer left out between two polls is skipped."""
    assert kinds([*LOG, *polled((1, 0)), *polled((3, 2))]) == ["poll-skip"]


def test_internal_poll_skip() -> None:
    """A record that a consumer left out within one poll is skipped."""
    assert kinds([*LOG, *polled((1, 0), (3, 2))]) == ["int-poll-skip"]


def test_nonmonotonic_poll() -> None:
    """A record that a consumer receives again in a later poll is an anomaly."""
    assert kinds([*LOG, *polled((1, 0), (2, 1)), *polled((2, 1), (3, 2))]) == ["nonmonotonic-poll"]


def test_internal_nonmonotonic_poll() -> None:
    """Two records in the wrong order within one poll are an anomaly."""
    assert kinds([*LOG, *polled((2, 1), (1, 0))]) == ["int-nonmonotonic-poll"]


def test_poll_skip_after_an_assignment() -> None:
    """A consumer that was assigned offset 1 and began at 2 has skipped a record."""
    assert kinds([*LOG, Assign("consumer", (("r-0", 1),)), *polled((3, 2))]) == ["poll-skip"]


def test_nonmonotonic_poll_after_an_assignment() -> None:
    """A consumer that was assigned offset 1 must not begin at 0."""
    assert kinds([*LOG, Assign("consumer", (("r-0", 1),)), *polled((1, 0))]) == ["nonmonotonic-poll"]


@pytest.mark.parametrize("between", [Assign("consumer", (("r-0", 0),)), Revoke("consumer", ("r-0",))])
def test_positions_begin_anew_with_an_assignment(between: Event) -> None:
    """A consumer may read records again after it is assigned another offset or loses the partition."""
    assert kinds([*LOG, *polled((1, 0), (2, 1)), between, *polled((1, 0), (2, 1))]) == []


def test_a_consumer_of_committed_records_skips_others() -> None:
    """A consumer may skip an aborted record if it reads with read_committed, but not with read_uncommitted."""
    events = [
        *sent((1, 0)),
        *transaction((2, 1), commits=False),
        *sent((3, 3)),
        *read((1, 0), (3, 3), uncommitted=[(1, 0), (2, 1), (3, 3)]),
    ]
    assert kinds([*events, *polled((1, 0), (3, 3))]) == []
    assert kinds([*events, *polled((1, 0), (3, 3), isolation="read_uncommitted")]) == ["int-poll-skip"]


def test_torn_transaction() -> None:
    """A transaction of unknown outcome is torn if its record in r-0 was read and its record in r-1 was not."""
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
    """Either all records of a transaction of unknown outcome are in the log, or none."""
    events = [*sent((1, 0), (2, 1), number=1), *ended(1, outcome="unknown")]
    both = [(1, 0), (2, 1)]
    assert kinds([*events, *read(*(both if is_there else ()), uncommitted=both)]) == []


GROUP_READS: list[Event] = [
    Assign("member", (("r-0", None),), "group"),
    *polled((1, 0), (2, 1), (3, 2), (4, 3), process="member", group="group"),
]


def test_lost_commit() -> None:
    """A fetched offset (2) below an acknowledged commit (4) is a lost commit."""
    events = [*LOG, *GROUP_READS, *committed(2), *committed(4, operation=1), *fetch(2)]
    assert kinds(events) == ["group-unread", "lost-commit"]


def test_commits_that_are_all_gone() -> None:
    """A fetch that finds no offset after an acknowledged commit shows a lost commit."""
    assert kinds([*LOG, *GROUP_READS, *committed(4), *fetch(None)]) == ["group-unread", "lost-commit"]


def test_a_commit_that_nobody_made() -> None:
    """A fetched offset (3) that was never committed is an anomaly."""
    events = [*LOG, *GROUP_READS, *committed(2), *committed(4, outcome="unknown", operation=1), *fetch(3)]
    assert kinds(events) == ["group-unread", "lost-commit"]


def test_lost_commit_that_shows_in_the_next_owner() -> None:
    """A new owner that begins below an acknowledged commit (4) shows a lost commit."""
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
    """A new owner may begin below a commit that was not acknowledged, or that came after its assignment."""
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
    """A new owner may begin below the offsets of an aborted transaction, but not below those of a committed one."""
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
    """A record between the positions of a member and of its successor that no member received is skipped."""
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
    """A group that has not reached the end of the log when the run ends has unread records."""
    assert kinds([*LOG, *GROUP_READS, *committed(3), *fetch(3)]) == ["group-unread"]


def copies(*, commits: bool = True, outcome: str = "ok", source: int = 4, offset: int = 4) -> list[Event]:
    """Returns a transaction that makes record 9 from `source` and commits `offset`."""
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
    """Inputs that have one output each and are committed are no anomaly."""
    assert kinds([*BEFORE, *copies(), *read(*OUTPUTS, partition="out-0"), *fetch(4)]) == []


def test_processed_twice() -> None:
    """An input with two outputs (3) was processed twice, and a committed input without an output (4) is torn."""
    events = [*BEFORE, *copies(source=3), *read(*OUTPUTS, partition="out-0"), *fetch(4)]
    assert kinds(events) == ["processed-twice", "torn-offsets"]


def test_an_input_that_its_client_wrote_twice_has_two_outputs() -> None:
    """A copy that a client wrote is an input of its own: two outputs are right, one is torn, and three are too many."""
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
    """A transaction of unknown outcome is torn if its output is in the log and its offset is not committed."""
    events = [*BEFORE, *copies(outcome="unknown"), *read(*OUTPUTS, partition="out-0"), *fetch(3)]
    assert kinds(events) == ["group-unread", "torn-offsets"]


def test_an_offset_without_its_output() -> None:
    """A transaction of unknown outcome is torn if its offset is committed and its output was not read as committed."""
    last = read(*OUTPUTS[1:], uncommitted=OUTPUTS, partition="out-0")
    events = [*BEFORE, *copies(outcome="unknown"), *last, *fetch(4)]
    assert kinds(events) == ["torn-offsets"]


def test_anomalies_name_their_events() -> None:
    """An anomaly has the indexes of the events that show it, and the value of its record."""
    facts, (anomaly, *_) = check(entries_of([*sent((1, 0), (2, 1)), *sent((3, 2)), *read((1, 0), (3, 2))]))
    assert anomaly.kind == "lost-write"
    assert anomaly.indexes == (0, 1)
    assert anomaly.values == {2}
    assert last_fetches(facts) == {}


def test_a_history_with_a_value_twice_says_nothing() -> None:
    """A history in which a value was sent twice raises ValueError, because the checks identify records by value."""
    with pytest.raises(ValueError, match="value 1 was sent twice"):
        kinds([*sent((1, 0)), *sent((1, 1), process="another")])


# --- runs that end early --------------------------------------------------------------------------------------------


def test_a_record_that_was_passed_is_missing_also_when_a_run_ended_early() -> None:
    """A record (2) is lost in a run that ended early if a later record (3) was read."""
    events = [*sent((1, 0), (2, 1), (3, 2)), *read((1, 0), (3, 2))]
    assert kinds(events, ended_early=True) == ["lost-write", "lost-write"]


def test_what_nobody_has_come_to_may_be_there_when_a_run_ended_early() -> None:
    """In a run that ended early, records, outputs and group reads beyond the last reads are not reported as missing."""
    assert kinds([*sent((1, 0), (2, 1)), *read((1, 0))], ended_early=True) == []
    torn = [*sent((1, 0), number=1), Send("producer", 2, (("r-1", 2),), 1), *ended(1), *read((1, 0))]
    assert kinds(torn, ended_early=True) == []
    assert kinds([*LOG, *GROUP_READS, *committed(3), *fetch(3)], ended_early=True) == []
    events = [*BEFORE, *copies(outcome="unknown"), *read(*OUTPUTS, partition="out-0"), *fetch(3)]
    assert kinds(events, ended_early=True) == []


def test_a_torn_transaction_that_was_passed_is_one_also_when_a_run_ended_early() -> None:
    """A transaction is torn in a run that ended early if a missing record (2) lies before a record that was read."""
    events = [*sent((1, 0), (2, 1), number=1), *ended(1, outcome="unknown"), *sent((3, 3)), *read((1, 0), (3, 3))]
    assert "torn-transaction" in kinds(events, ended_early=True)


def test_the_end_of_a_run_says_why() -> None:
    """The reason for an early end comes from the run's last event; a history without that event was cut off."""
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
    """Returns the last reads of r-0, which find the same records at both isolation levels."""
    return read(*records)


def test_what_was_not_synced_may_be_lost_with_the_power() -> None:
    """A power loss may take acknowledged but unsynced records, and other records may take their offsets."""
    before = sent((1, 0), (2, 1), (3, 2), (4, 3))
    for rest in ([], [(3, 2)], [(3, 2), (4, 3)], [(5, 2)]):
        events = [*before, CUT, *sent((5, 2 if rest == [(5, 2)] else None), outcome="unknown")]
        assert kinds([*events, *last((1, 0), (2, 1), *rest)]) == []


def test_what_was_synced_must_not_be_lost_with_the_power() -> None:
    """A power loss must not take a synced record (2)."""
    assert kinds([*sent((1, 0), (2, 1), (3, 2)), CUT, *last((1, 0), (3, 2))]) == ["lost-write"]
    assert kinds([*sent((1, 0), (2, 1), (3, 2)), CUT, *last((1, 0))]) == ["unseen"]


def test_what_was_sent_after_the_last_loss_of_power_must_be_there() -> None:
    """A record that was acknowledged after the last power loss must be in the log."""
    assert kinds([CUT, *sent((1, 0), (2, 1), (3, 2)), *last((1, 0), (2, 1))]) == ["unseen"]


def test_what_was_read_before_a_loss_of_power_binds_nobody() -> None:
    """After a power loss, another record may have the offset of a record that was read before."""
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
    """A power loss excuses no phantom, no duplicate and no inconsistent offset."""
    before = sent((1, 0), (2, 1))
    assert kinds([*before, CUT, *last((1, 0), (2, 1), (7, 2))]) == ["phantom"]
    assert kinds([*before, CUT, *last((1, 0), (2, 1), (2, 2))]) == ["duplicate"]
    assert "inconsistent-offsets" in kinds([*before, CUT, *last((2, 0), (1, 1))])


def test_a_producer_epoch_that_is_given_twice() -> None:
    """After a power loss, a coordinator may assign an epoch twice, and the log may take a new record for a duplicate.

    Here the coordinator assigns epoch 1 again. Record 2 is acknowledged at the offset of record 1, and is not written.
    """
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
    """After a power loss, a group may have lost an acknowledged commit."""
    events = [*LOG, *GROUP_READS, *committed(4), CUT, *fetch(2), *last((1, 0), (2, 1), (3, 2), (4, 3))]
    assert kinds(events) == []


def test_falling_end() -> None:
    """The end of a log that one client was told falls. The ends of other partitions, and those that other clients were
    told meanwhile, are no anomaly: answers may arrive in another order than they were given."""
    events: list[Event] = [
        EndOffset("one", "r-0", 5),
        EndOffset("one", "r-1", 2),
        EndOffset("two", "r-0", 4),
        EndOffset("one", "r-0", 5),
        EndOffset("one", "r-0", 7),
    ]
    assert kinds(events) == []
    assert kinds([*events, EndOffset("one", "r-0", 6)]) == ["falling-end"]


def test_out_of_range() -> None:
    """A consumer is told that the offset after the last record is out of range. Other problems are no anomaly."""
    assert kinds([Problem("reader", "Broker: Not coordinator")]) == []
    text = "fetch failed due to requested offset not available on the broker: Broker: Offset out of range (broker 1)"
    assert kinds([Problem("reader", text)]) == ["out-of-range"]
