"""Tests of subscriptions by regular expression (KIP-848)."""

from __future__ import annotations

import pytest
from tests.unit.core.group.consumer.consumer_driver import EVENTS, GROUP, ConsumerDriver, owned, slow
from tests.unit.core.group.painted_topics import PaintedTopics

from klamm.core.group.events import Cause, RebalanceNeeded, Remark
from klamm.core.group.shard import GroupShard
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest

ALL = {EVENTS: [0, 1, 2, 3, 4, 5]}
TEN_SECONDS = 10_000


def test_regex_is_resolved_elsewhere() -> None:
    """A task resolves the regular expression: the member joins at once and gets partitions with a later heartbeat."""
    driver = ConsumerDriver()
    joined = driver.enter("a", names=None, regex="ev.*")
    assert (joined.code, joined.epoch, joined.assigned) == (ErrorCode.NONE, 1, {})
    driver.run_tasks()
    assert driver.consumer_group().epoch == 2
    assert driver.happened(RebalanceNeeded)[-1].cause is Cause.SUBSCRIPTION_CHANGED
    assert driver.beat("a", 1).assigned == ALL
    assert driver.described().members[0].subscribed_topic_regex == "ev.*"
    assert driver.reload().shard.store == driver.shard.store


def test_regex_matches_whole_names() -> None:
    """A regular expression has to match the whole topic name, as in Java's `matches`."""
    driver = ConsumerDriver()
    driver.enter("a", names=None, regex="event|audi")
    driver.run_tasks()
    assert driver.consumer_group().regexes["event|audi"].topics == frozenset()


def test_names_and_regex_add_up() -> None:
    """A subscription can have topic names and a regular expression at the same time."""
    driver = ConsumerDriver()
    driver.enter("a", names=["audit"], regex="ev.*")
    driver.run_tasks()
    assert driver.beat("a", 2).assigned == {EVENTS: [0, 1, 2, 3, 4, 5], "audit": [0, 1]}


@pytest.mark.parametrize(
    ("regex", "words"),
    [
        ("(", "missing closing )"),
        ("[a", "missing closing ]"),
        ("*a", "missing argument to repetition operator"),
        ("a{2000}", "invalid repeat count"),
        ("(?<=a)b", "invalid or unsupported Perl syntax"),
        ("\\", "trailing backslash at end of expression"),
        ("[b-a]", "invalid character class range"),
    ],
)
def test_bad_regex_is_refused_at_once(regex: str, words: str) -> None:
    """An invalid regular expression is refused with the message of Kafka's library, and no group is created."""
    driver = ConsumerDriver()
    answer = driver.enter("a", names=None, regex=regex)
    assert answer.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert answer.message == f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {words}."
    assert driver.shard.consumer_groups.store.groups == {}


@pytest.mark.parametrize("regex", [r"\pL{1000}", "a?" * 15_000, "[^a]{1000}" * 10, "a" * 32_767])
def test_regex_that_takes_long_to_compile_is_refused_like_one_that_is_not_valid(regex: str) -> None:
    """A regular expression that is slow to compile is refused as invalid, because other requests would wait for it."""
    driver = ConsumerDriver()
    refused = driver.enter("a", names=None, regex=regex)
    assert refused.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert refused.message is not None
    assert refused.message.endswith("is not a valid regular expression: expression too large.")
    assert len(refused.message) < 32_767
    assert driver.shard.consumer_groups.store.groups == {}


def test_resolved_regex_is_shared() -> None:
    """A second member with the same regular expression needs no task."""
    driver = ConsumerDriver()
    driver.enter("a", names=None, regex="ev.*")
    driver.run_tasks()
    driver.beat("a", 1)
    driver.advance(TEN_SECONDS + 1)
    driver.enter("b", names=None, regex="ev.*")
    assert driver.tasks == []
    assert driver.consumer_group().epoch == 3
    driver.settle()
    assert driver.assigned("a") == {EVENTS: [0, 1, 2]}


def test_regex_goes_with_the_last_member_that_uses_it() -> None:
    """A resolved regular expression is deleted when its last member leaves or changes its subscription."""
    driver = ConsumerDriver()
    driver.enter("a", names=None, regex="ev.*")
    driver.enter("b", names=None, regex="ev.*")
    driver.run_tasks()
    driver.go("b")
    assert driver.consumer_group().regexes.keys() == {"ev.*"}
    driver.beat("a", driver.member("a").member_epoch, subscribed_topic_regex="", topic_partitions=[])
    assert driver.consumer_group().regexes == {}
    driver.enter("c", names=None, regex="a.*")
    driver.run_tasks()
    assert driver.consumer_group().regexes.keys() == {"a.*"}
    driver.go("c")
    assert driver.consumer_group().regexes == {}
    assert driver.reload().shard.store == driver.shard.store


def test_regex_in_the_place_of_another_is_resolved_at_once() -> None:
    """A member that replaces its regular expression by a new one starts the resolution with the same heartbeat."""
    driver = ConsumerDriver()
    driver.enter("a", names=None, regex="ev.*")
    driver.run_tasks()
    driver.settle()
    driver.advance(TEN_SECONDS + 1)
    driver.beat("a", 2, subscribed_topic_regex="au.*", topic_partitions=owned(events=[0, 1, 2, 3, 4, 5]))
    assert len(driver.tasks) == 1
    driver.run_tasks()
    assert driver.beat("a", 2, topic_partitions=[]).assigned == {"audit": [0, 1]}


def test_dropped_regex_is_let_go_at_once() -> None:
    """A member that drops its regular expression revokes the partitions of topics that only this expression matched."""
    driver = ConsumerDriver()
    driver.enter("a", names=["audit"], regex="ev.*")
    driver.run_tasks()
    driver.settle()
    answer = driver.beat("a", 3, subscribed_topic_regex="")
    assert answer.assigned == {"audit": [0, 1]}
    assert driver.beat("a", 3, topic_partitions=owned(audit=[0, 1])).epoch == 4


def test_new_topic_is_found() -> None:
    """A heartbeat finds a new topic if the last resolution was at least ten seconds ago."""
    driver = ConsumerDriver()
    driver.enter("a", names=None, regex="e.*")
    driver.run_tasks()
    driver.beat("a", 1)
    driver.paint(PaintedTopics(2, events=6, errors=1))
    driver.beat("a", 2)
    assert driver.tasks == []
    driver.advance(TEN_SECONDS + 1)
    driver.beat("a", 2)
    driver.run_tasks()
    assert driver.happened(RebalanceNeeded)[-1].cause is Cause.TOPIC_CREATED
    assert driver.beat("a", 2).assigned == {EVENTS: [0, 1, 2, 3, 4, 5], "errors": [0]}


def test_topic_that_grows_or_goes_is_noticed_like_any() -> None:
    """A grown or deleted topic changes the assignment at once, without a new resolution of the expression."""
    driver = ConsumerDriver()
    driver.enter("a", names=None, regex="e.*")
    driver.run_tasks()
    driver.beat("a", 1)
    driver.paint(PaintedTopics(2, events=7))
    assert driver.beat("a", 2).assigned == {EVENTS: list(range(7))}
    driver.paint(PaintedTopics(3))
    assert driver.beat("a", 3, topic_partitions=[]).assigned == {}
    assert driver.consumer_group().regexes["e.*"].topics == {EVENTS}


def test_regexes_are_looked_at_from_time_to_time() -> None:
    """Expressions are resolved again after `group.consumer.regex.refresh.interval.ms`; the result is always written."""
    driver = ConsumerDriver(settings=slow(session_timeout_ms=10_000_000))
    driver.enter("a", names=None, regex="e.*")
    driver.run_tasks()
    driver.advance(1000)
    driver.settle("a")
    driver.advance(590_000)
    driver.beat("a", 2)
    assert driver.tasks == []
    driver.advance(10_000)
    driver.beat("a", 2)
    (task,) = driver.tasks
    driver.beat("a", 2)
    assert driver.tasks == [task]
    driver.run_tasks()
    assert driver.consumer_group().epoch == 2
    assert driver.consumer_group().regexes["e.*"].resolved_at_ms > driver.now - 10_000


def test_regexes_are_looked_at_after_a_restart() -> None:
    """A new coordinator resolves expressions again, because a topic may have been created meanwhile."""
    driver = ConsumerDriver()
    driver.enter("a", names=None, regex="e.*")
    driver.run_tasks()
    driver.beat("a", 1)
    driver.advance(TEN_SECONDS + 1)
    driver.topics = PaintedTopics(2, events=6, errors=1)
    again = driver.reload()
    again.beat("a", 2)
    again.run_tasks()
    assert again.beat("a", 2).assigned == {EVENTS: [0, 1, 2, 3, 4, 5], "errors": [0]}


def test_wall_clock_that_was_set_back_keeps_no_regex_waiting() -> None:
    """A resolution time in the future, after the clock was set back, does not delay other expressions."""
    driver = ConsumerDriver()
    driver.enter("a", names=None, regex="ev.*")
    driver.run_tasks()
    driver.now = type(driver.now)(driver.now - 3_600_000)
    driver.enter("b", names=None, regex="au.*")
    driver.run_tasks()
    assert driver.consumer_group().regexes.keys() == {"ev.*", "au.*"}


def test_outcome_for_a_regex_that_nobody_uses_any_more_is_dropped() -> None:
    """The outcome for a regular expression without a member is dropped, and writes no record."""
    driver = ConsumerDriver()
    driver.enter("a", names=None, regex="e.*")
    driver.go("a")
    written = len(driver.log)
    driver.run_tasks()
    assert len(driver.log) == written


def test_failure_leaves_what_was_known() -> None:
    """A task that fails leaves a remark, and a later heartbeat starts the resolution again."""
    driver = ConsumerDriver()
    driver.enter("a", names=None, regex="e.*")
    (task,) = driver.tasks
    driver.tasks.clear()
    driver.apply(driver.shard.handle_outcome(task, RuntimeError("no"), driver.now))
    assert len(driver.happened(Remark)) == 1
    driver.beat("a", 1)
    driver.run_tasks()
    assert driver.beat("a", 1).assigned == ALL


def test_quiet_heartbeat_stays_quiet_with_a_regex() -> None:
    """A heartbeat without changes needs no record and no task once the regular expression is resolved."""
    driver = ConsumerDriver()
    driver.enter("a", names=None, regex="e.*")
    driver.run_tasks()
    driver.beat("a", 1)
    request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="a", member_epoch=2)
    written = len(driver.log)
    driver.ask(GroupShard.handle_consumer_group_heartbeat, request, 1)
    assert (len(driver.log), driver.tasks) == (written, [])
