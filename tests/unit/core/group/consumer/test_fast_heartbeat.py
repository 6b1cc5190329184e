"""Tests of reusable heartbeat answers: an answer becomes invalid with every change that would alter it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.unit.core.group.consumer.consumer_driver import EVENTS, GROUP, ConsumerDriver
from tests.unit.core.group.painted_topics import PaintedTopics

from klamm.core.coordinator.shard_contract import ClientContext, Result, Ticket
from klamm.core.group.shard import GroupShard
from klamm.protocol.schema.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from klamm.protocol.types import Millis

Happening = Callable[[ConsumerDriver], object]


def decide(driver: ConsumerDriver, *, epoch: int = 2, client_id: str = "client") -> Result:
    """Returns the result of a heartbeat of member a without optional fields; the result is not applied."""
    request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="a", member_epoch=epoch)
    context = ClientContext(client_id, "/10.0.0.1", 1)
    return GroupShard.handle_consumer_group_heartbeat(driver.shard, request, context, Ticket(1), driver.now)


def set_heartbeat_interval(driver: ConsumerDriver) -> None:
    driver.settings = replace(driver.settings, heartbeat_interval_ms=7_000)


@pytest.mark.parametrize(
    "happening",
    [
        lambda driver: driver.advance(44_000),
        lambda driver: driver.beat("a", 2),
        lambda driver: driver.enter("a", group_id="another"),
        lambda driver: driver.commit(3, member_id="a", generation=2),
        lambda driver: driver.paint(PaintedTopics(1, events=6, audit=3)),
        lambda driver: driver.maybe_beat("stranger", 2),
    ],
    ids=["time", "another heartbeat", "another group", "a commit", "another topic", "a stranger"],
)
def test_it_stands_through_what_does_not_concern_it(happening: Happening) -> None:
    """A reusable answer stays valid through events that do not change the answer."""
    driver = ConsumerDriver()
    driver.enter("a")
    before = decide(driver)
    assert before.reusable_answer is not None
    happening(driver)
    assert before.reusable_answer.holds(driver.now)
    again = decide(driver)
    assert (again.replies, again.timers) == (before.replies, before.timers)


@pytest.mark.parametrize(
    "happening",
    [
        lambda driver: driver.advance(45_000),
        lambda driver: driver.enter("b"),
        lambda driver: driver.beat("a", -1),
        lambda driver: driver.beat("a", 2, subscribed_topic_names=["audit"]),
        lambda driver: driver.beat("a", 2, client_id="another client"),
        lambda driver: driver.paint(PaintedTopics(1, events=7, audit=2)),
        set_heartbeat_interval,
    ],
    ids=["session", "newcomer", "leaves", "subscription", "client id", "more partitions", "settings"],
)
def test_it_falls_with_what_concerns_it(happening: Happening) -> None:
    """A reusable answer becomes invalid with every event that changes the answer, or ends the session."""
    driver = ConsumerDriver()
    driver.enter("a")
    reusable_answer = decide(driver).reusable_answer
    assert reusable_answer is not None
    happening(driver)
    assert not reusable_answer.holds(driver.now)


def test_regular_expression_is_looked_at_when_it_is_due() -> None:
    """A reusable answer becomes invalid when a regular expression is due for resolution."""
    driver = ConsumerDriver()
    entered = driver.enter("a", names=None, regex="ev.*")
    driver.run_tasks()
    settled = driver.beat("a", entered.epoch)
    reusable_answer = decide(driver, epoch=settled.epoch).reusable_answer
    assert reusable_answer is not None
    until_due = driver.config.consumer_regex_refresh_interval_ms
    assert reusable_answer.holds(driver.now)
    driver.now = Millis(driver.now + until_due)
    assert reusable_answer.holds(driver.now)
    driver.now = Millis(driver.now + 1)
    assert not reusable_answer.holds(driver.now)


@pytest.mark.parametrize(
    "said",
    [
        {"rebalance_timeout_ms": 60_000},
        {"subscribed_topic_names": [EVENTS]},
        {"server_assignor": "uniform"},
        {"rack_id": "b"},
    ],
)
def test_who_says_more_is_listened_to(said: dict[str, object]) -> None:
    """A heartbeat with an optional field never has a reusable answer."""
    driver = ConsumerDriver()
    driver.enter("a")
    request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="a", member_epoch=2)
    for name, value in said.items():
        setattr(request, name, value)
    context = ClientContext("client", "/10.0.0.1", 1)
    result = GroupShard.handle_consumer_group_heartbeat(driver.shard, request, context, Ticket(1), driver.now)
    assert result.reusable_answer is None
