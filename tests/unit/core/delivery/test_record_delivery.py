"""Tests of the decisions about all partitions of one handler."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from klamm.core.delivery.commit_text import decode_note
from klamm.core.delivery.record_delivery import RecordDelivery
from klamm.core.delivery.record_window import RecordWindow
from klamm.core.delivery.retry_rule import Retry
from klamm.core.delivery.work import Received, Work
from klamm.protocol.types import Offset, PartitionIndex, TopicPartition

P0, P1 = TopicPartition("orders", PartitionIndex(0)), TopicPartition("orders", PartitionIndex(1))


def new_delivery(keys: str = "", **options: Any) -> RecordDelivery:
    """Returns the decisions of a member that owns two partitions; the first has a record for each letter."""
    delivery = RecordDelivery(**{"concurrency": 10, "retry": Retry(3, first=1), **options})
    for partition in (P0, P1):
        delivery.assign(partition, Offset(0))
    receive(delivery, P0, keys)
    return delivery


def receive(
    delivery: RecordDelivery, partition: TopicPartition, keys: str, first: int = 0, now_ms: float = 0
) -> Offset | None:
    """Receives a record for each letter, with the letter as the key."""
    records = [Received(Offset(first + at), key.encode(), 10, key) for at, key in enumerate(keys)]
    return delivery.receive(partition, records, now_ms)


def take_all(delivery: RecordDelivery, now_ms: float = 0) -> list[list[Work]]:
    """Takes all runs that may start."""
    runs = []
    while run := delivery.take(now_ms):
        runs.append(run)
    return runs


def offsets(runs: Iterable[Iterable[Work]]) -> list[list[int]]:
    """Returns the offsets of runs."""
    return [[work.offset for work in run] for run in runs]


@pytest.mark.parametrize(("order", "started"), [("key", [[0], [2]]), ("partition", [[0]]), ("none", [[0], [1], [2]])])
def test_the_order_decides_what_runs_at_once(order: str, started: list[list[int]]) -> None:
    """By key, by partition, or all records."""
    assert offsets(take_all(new_delivery("aab", order=order))) == started


def test_no_more_runs_than_the_concurrency() -> None:
    """Partitions have their turns one after the other."""
    delivery = new_delivery("abc", concurrency=3)
    receive(delivery, P1, "abc")
    runs = take_all(delivery)
    assert [run[0].partition.name for run in runs] == [P0, P1, P0]
    delivery.succeed(runs[0])
    assert len(take_all(delivery)) == 1


def test_a_retry_waits_for_its_time_and_holds_up_its_key_only() -> None:
    """Other keys go on; the time of the next attempt is `next_ms`."""
    delivery = new_delivery("aab")
    first, other = take_all(delivery)
    assert delivery.fail(first, 0) == []
    delivery.succeed(other)
    assert delivery.has_waiting
    assert delivery.next_ms() == 1000
    assert take_all(delivery, 999) == []
    (again,) = take_all(delivery, 1000)
    assert (again[0].offset, again[0].attempts) == (0, 2)
    assert delivery.commits() == [(P0, 0, delivery_text(delivery))]


def delivery_text(delivery: RecordDelivery) -> str:
    """Returns the text of the next commit of the first partition."""
    delivery.commit_failed([P0])
    (commit,) = delivery.commits([P0])
    delivery.commit_failed([P0])
    return commit.metadata


def test_a_record_that_fails_for_the_last_time_keeps_its_place_until_it_is_written_elsewhere() -> None:
    """The next record of the key starts after the caller's report."""
    delivery = new_delivery("aa", retry=Retry(1))
    (run,) = take_all(delivery)
    lost = delivery.fail(run, 0)
    assert offsets([lost]) == [[0]]
    assert take_all(delivery) == []
    delivery.succeed(lost)
    assert offsets(take_all(delivery)) == [[1]]
    assert [commit.offset for commit in delivery.commits()] == [1]


def test_an_abandoned_record_stays_unfinished() -> None:
    """The position does not move, and the key does not go on."""
    delivery = new_delivery("aa", retry=Retry(1))
    (run,) = take_all(delivery)
    (work,) = delivery.fail(run, 0)
    delivery.abandon(work)
    assert delivery.runs_outside == 0
    assert take_all(delivery) == []
    assert delivery.commits([P0])[0].offset == 0


def test_the_deadline_ends_the_attempts() -> None:
    """A wait that would exceed the deadline is not begun."""
    delivery = new_delivery("a", retry=Retry(9, first=1, deadline=2.5))
    (run,) = take_all(delivery)
    assert delivery.fail(run, 0) == []
    (run,) = take_all(delivery, 1000)
    assert offsets([delivery.fail(run, 1000)]) == [[0]]


def test_a_batch_waits_for_more_records() -> None:
    """It starts when it is full, or when its time is over."""
    delivery = new_delivery("ab", batch=3, within_ms=500)
    assert take_all(delivery) == []
    assert delivery.next_ms() == 500
    receive(delivery, P1, "abc")
    assert offsets(take_all(delivery)) == [[0, 1, 2]]
    assert offsets(take_all(delivery, 500)) == [[0, 1]]


def test_the_records_of_a_failed_batch_are_tried_one_by_one() -> None:
    """Each of them has its own attempts."""
    delivery = new_delivery("aab", batch=3)
    (run,) = take_all(delivery)
    assert delivery.fail(run, 0) == []
    runs = take_all(delivery, 1000)
    assert offsets(runs) == [[0], [2]]
    delivery.succeed(runs[0])
    assert offsets(take_all(delivery, 1000)) == [[1]]


def test_each_record_of_a_failed_batch_has_a_deadline_of_its_own() -> None:
    """It counts from the first call with the record alone, also for a record that waited for another one of its key."""
    delivery = new_delivery("aab", batch=3, retry=Retry(3, first=1, deadline=5))
    (run,) = take_all(delivery)
    assert {work.deadline_ms for work in run} == {5000}
    assert delivery.fail(run, 5000) == []
    first, other = take_all(delivery, 6000)
    assert [work.deadline_ms for work in (*first, *other)] == [11_000, 11_000]
    assert delivery.fail(first, 7000) == []
    delivery.succeed(other)
    (first,) = take_all(delivery, 10_000)
    assert [work.deadline_ms for work in first] == [11_000]
    delivery.succeed(delivery.fail(first, 10_500))
    (second,) = take_all(delivery, 20_000)
    assert [(work.offset, work.deadline_ms) for work in second] == [(1, 25_000)]


def test_a_bad_record_is_taken_out_of_its_batch() -> None:
    """The batch counts as not begun, and so does its deadline."""
    delivery = new_delivery("abc", batch=3, retry=Retry(deadline=5))
    (run,) = take_all(delivery)
    delivery.separate(run, [run[1]], 1000)
    runs = take_all(delivery, 1000)
    assert {work.deadline_ms for run in runs for work in run} == {6000}
    assert offsets(runs) == [[0], [1], [2]]
    assert {work.attempts for run in runs for work in run} == {1}


def test_a_revoked_partition_drains() -> None:
    """What runs may end and is committed; what has failed is not tried again here."""
    delivery = new_delivery("abc", concurrency=2)
    runs = take_all(delivery)
    delivery.revoke([P0])
    assert not delivery.is_drained([P0])
    delivery.succeed(runs[0])
    delivery.fail(runs[1], 0)
    assert delivery.is_drained([P0])
    assert take_all(delivery, 5000) == []
    assert [commit.offset for commit in delivery.commits([P0])] == [1]


def test_nothing_is_committed_for_a_partition_that_is_gone() -> None:
    """Late reports have no effect, also if the partition came back meanwhile."""
    delivery = new_delivery("ab")
    first, second = take_all(delivery)
    delivery.drop([P0])
    delivery.assign(P0, Offset(0))
    delivery.succeed(first)
    assert delivery.fail(second, 0) == []
    assert delivery.runs_outside == 0
    assert [commit.offset for commit in delivery.commits([P0])] == []


def test_a_log_that_begins_again_is_read_from_its_beginning() -> None:
    """The ranges of the old log do not apply; a partition that the consumer has paused stays paused."""
    delivery = new_delivery(window=RecordWindow(records=2))
    delivery.assign(P0, Offset(100), [(Offset(102), Offset(103))])
    receive(delivery, P0, "abc", 100)
    assert delivery.flow(1000).pause == [P0, P1]
    old = delivery.partitions[P0]
    assert receive(delivery, P0, "ab", 0) == 0
    assert old.is_gone
    assert delivery.partitions[P0].is_paused
    assert receive(delivery, P0, "ab", 0) is None
    (first, second) = take_all(delivery)
    delivery.succeed(first)
    delivery.succeed(second)
    assert sorted(delivery.flow(1000).resume) == [P0, P1]


def test_records_before_the_cut_of_a_log_are_not_lost() -> None:
    """An unclean election cuts the log behind the position. What is not finished is read again, and what was finished
    before the cut is not handled again. The new records at the old offsets are handled.
    """
    delivery = new_delivery("abcdef", concurrency=3)
    first, second, third = take_all(delivery)
    delivery.succeed(second)
    (fourth,) = take_all(delivery)
    delivery.succeed(fourth)
    take_all(delivery)
    assert receive(delivery, P0, "xy", 3) == 0
    assert delivery.commits([P0]) == []
    delivery.succeed(first)  # too late: the run belongs to an ownership that is over
    delivery.succeed(third)
    assert receive(delivery, P0, "abcxyz", 0) is None
    runs = offsets(take_all(delivery))
    assert runs == [[0], [2]]


def test_a_read_that_goes_back_is_read_again() -> None:
    """The step back may lie within one read."""
    delivery = new_delivery("ab")
    records = [Received(Offset(offset), b"%d" % offset, 10, "x") for offset in (2, 3, 4, 3, 4)]
    assert delivery.receive(P0, records, 0) == 0
    assert delivery.partitions[P0].unfinished == 0


def test_a_dropped_partition_leaves_nothing_in_memory() -> None:
    """Records that wait for their next attempt do not keep the others of their partition."""
    delivery = new_delivery("aab")
    first, _other = take_all(delivery)
    delivery.fail(first, 0)
    lanes = delivery.partitions[P0]
    delivery.drop([P0])
    assert not delivery.has_waiting
    assert delivery.next_ms() is None
    assert lanes.position == lanes.end


def test_a_batch_of_a_paused_partition_does_not_wait() -> None:
    """No more records come before the batch was handled."""
    delivery = new_delivery("abcd", batch=10, within_ms=60_000, window=RecordWindow(records=4))
    assert take_all(delivery) == []
    assert delivery.flow(0).pause == [P0, P1]
    assert offsets(take_all(delivery)) == [[0, 1, 2, 3]]


def test_a_full_window_pauses_all_partitions() -> None:
    """They are resumed when half of their shares is free."""
    delivery = new_delivery("abcd", window=RecordWindow(records=4))
    assert delivery.is_full
    assert delivery.flow(0).pause == [P0, P1]
    assert delivery.flow(0) == ([], [])
    runs = take_all(delivery)
    for run in runs[:3]:
        delivery.succeed(run)
    assert sorted(delivery.flow(0).resume) == [P0, P1]


def test_a_window_is_full_by_bytes() -> None:
    """A few large records are enough."""
    delivery = new_delivery(window=RecordWindow(size_bytes=100))
    delivery.receive(P0, [Received(Offset(0), b"a", 100, "large")], 0)
    assert delivery.is_full


def test_a_failed_commit_is_made_again() -> None:
    """A commit that succeeded is not repeated without a change."""
    delivery = new_delivery("a")
    (run,) = take_all(delivery)
    delivery.succeed(run)
    assert [commit.offset for commit in delivery.commits([P0])] == [1]
    assert delivery.commits([P0]) == []
    delivery.commit_failed([P0])
    assert [commit.offset for commit in delivery.commits([P0])] == [1]


def test_shorter_notes_leave_less_room() -> None:
    """Where the broker accepts no metadata, only the record at the position starts."""
    delivery = new_delivery("abc")
    delivery.limit_notes(0)
    runs = take_all(delivery)
    assert offsets(runs) == [[0]]
    assert decode_note(Offset(0), delivery.commits([P0])[0].metadata).in_flight == 0


@pytest.mark.parametrize("end", ["succeed", "fail", "cancel", "separate"])
@pytest.mark.parametrize(("order", "others"), [("key", [[3]]), ("partition", [])])
def test_a_key_waits_for_the_run_of_an_earlier_ownership(order: Any, others: list[list[int]], end: str) -> None:
    """A partition comes back, twice, while a record of the first ownership still runs. Its key starts when this run
    ends, whatever its end is; other keys start at once.
    """
    delivery = new_delivery("aab", order=order)
    run = delivery.take(0)
    for _ in range(2):
        delivery.drop([P0])
        delivery.assign(P0, Offset(0))
    receive(delivery, P0, "aaab")
    assert offsets(take_all(delivery)) == others
    if end in ("fail", "separate"):
        getattr(delivery, end)(run, *[run[:1]] * (end == "separate"), 0)
    else:
        getattr(delivery, end)(run)
    (again,) = take_all(delivery)
    assert offsets([again]) == [[0]]
    delivery.succeed(again)
    assert offsets(take_all(delivery)) == [[1]]


def test_a_key_waits_for_a_dead_letter_of_an_earlier_ownership() -> None:
    """A record that is written elsewhere while its partition goes away and comes back is still in its place."""
    delivery = new_delivery("aa", retry=Retry(1))
    (lost,) = delivery.fail(delivery.take(0), 0)
    delivery.drop([P0])
    delivery.assign(P0, Offset(0))
    receive(delivery, P0, "aa")
    assert take_all(delivery) == []
    delivery.abandon(lost)
    assert offsets(take_all(delivery)) == [[0]]


def test_only_what_runs_is_waited_for_when_a_partition_comes_back() -> None:
    """Not keys that were ready, waited for an attempt (also if its time came after the revocation), or had ended; and
    without an order, nothing.
    """
    delivery = new_delivery("abcd", concurrency=3)
    first, second, third = take_all(delivery)
    delivery.fail(first, 0)
    delivery.succeed(second)
    delivery.revoke([P0])
    assert take_all(delivery, 1000) == []
    delivery.drop([P0])
    delivery.assign(P0, Offset(0))
    receive(delivery, P0, "abcd")
    runs = take_all(delivery)
    assert offsets(runs) == [[0], [1]]
    delivery.succeed(third)
    assert offsets(take_all(delivery)) == [[2]]
    unordered = new_delivery("aa", order="none")
    take_all(unordered)
    unordered.drop([P0])
    unordered.assign(P0, Offset(0))
    receive(unordered, P0, "aa")
    assert offsets(take_all(unordered)) == [[0], [1]]


def test_a_log_that_begins_again_waits_for_what_runs() -> None:
    """The key of a record that runs goes on after it, also if the log was cut meanwhile."""
    delivery = new_delivery("aab", concurrency=3)
    first, _ = take_all(delivery)
    assert receive(delivery, P0, "a", 0) == 0
    receive(delivery, P0, "ac", 0)
    assert offsets(take_all(delivery)) == [[1]]
    delivery.succeed(first)
    assert offsets(take_all(delivery)) == [[0]]


def test_a_hot_key_behind_a_running_batch_does_not_shorten_the_wait_of_other_keys() -> None:
    """A batch is full if enough records could start now: ready ones, and those behind them of the same key."""
    delivery = new_delivery("aaaaaaa", batch=3, within_ms=500)
    assert offsets(take_all(delivery)) == [[0, 1, 2]]
    receive(delivery, P0, "b", 7, now_ms=100)
    assert take_all(delivery, 100) == []
    assert delivery.next_ms() == 600
    receive(delivery, P0, "bb", 8, now_ms=200)
    assert offsets(take_all(delivery, 200)) == [[7, 8, 9]]


def test_a_record_whose_time_is_over_before_its_call_is_given_up() -> None:
    """The call that did not happen is no attempt."""
    delivery = new_delivery("ab", concurrency=1, retry=Retry(9, first=1, deadline=2.5))
    first = delivery.take(0)
    assert delivery.fail(first, 0) == []
    other = delivery.take(0)
    delivery.succeed(other)
    (work,) = delivery.take(2500)
    assert work.is_late(2500)
    assert not work.is_late(2499)
    assert delivery.give_up([work], 2500) == [work]
    assert work.attempts == 1
    delivery.succeed([work])
    assert [commit.offset for commit in delivery.commits()] == [2]


@pytest.mark.parametrize("attempts", [1, 2])
def test_a_record_of_a_failed_batch_is_called_once_alone(attempts: int) -> None:
    """Also with one attempt: the batch may have failed for another record."""
    delivery = new_delivery("ab", batch=2, retry=Retry(attempts, first=1))
    assert delivery.fail(delivery.take(0), 0) == []
    first, second = take_all(delivery, 1000)
    assert offsets([first, second]) == [[0], [1]]
    assert delivery.fail(first, 1000) == first
