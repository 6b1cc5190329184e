"""Groups whose members join, leave, stop and return while records are written; each member is its own process.

Each scenario checks that members read every record, that the group's committed offsets equal the log end offsets, and
that the coordinator never shows a partition with two owners (I15). Where rebalances are incremental (cooperative
classic groups, consumer groups), members that a rebalance does not concern continue to read (I19).

A suite inherits these tests; its `settings` choose the protocol of the members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar, Final

import pytest
from tests.interop.churn_life import Life, Steady
from tests.interop.group_scenarios import StartClient
from tests.interop.owner_watch import describe_members
from tests.support.group_configs import set_group_config
from tests.support.wire import Wire

from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.schema.offset_commit_response import OffsetCommitResponse

__all__ = ["SESSION_MS", "ChurnScenarios"]

SESSION_MS: Final = "10000"
"""One test waits for the end of a session. Members that get no processor for some seconds must not lose theirs."""
REFUSALS: Final = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION}


class ChurnScenarios:
    """Scenarios of a group whose membership changes often."""

    settings: ClassVar[dict[str, str]]
    """The members' settings, which choose their protocol."""
    is_incremental: ClassVar[bool] = True
    """Whether members continue to read the partitions that they keep."""

    @pytest.fixture
    def new_life(self, start_client: StartClient, bootstrap: str) -> Iterator[Callable[[int], Life]]:
        """Makes a group on a topic with the given number of partitions, and starts writing to the topic."""
        lives: list[Life] = []

        def new_life(partitions: int) -> Life:
            life = Life(start_client, bootstrap, partitions, self.settings)
            set_group_config(
                bootstrap, life.group, consumer_session_timeout_ms=SESSION_MS, consumer_heartbeat_interval_ms="100"
            )
            lives.append(life)
            life.watch.__enter__()
            life.writing.__enter__()
            return life

        yield new_life
        for life in lives:
            life.writing.__exit__(None, None, None)
            life.watch.__exit__(None, None, None)

    def test_a_rolling_restart_of_ten(self, new_life: Callable[[int], Life]) -> None:
        """A group of ten members loses no record when its members are replaced one after the other."""
        life = new_life(20)
        members = life.start(*(f"member-{number}" for number in range(10)))
        life.wait_until_shared_by(members)
        for number in range(10):
            steady = Steady(members[:number] + members[number + 1 :], life.writing)
            life.stop(members[number])
            (members[number],) = life.start(f"again-{number}")
            life.wait_until_shared_by(members)
            if self.is_incremental:
                steady.check_that_they_kept_what_they_keep()
        life.check_that_nothing_was_lost(members)

    def test_scaling_from_three_to_ten_and_back(self, new_life: Callable[[int], Life]) -> None:
        """A group loses no record when seven members join at once and leave at once, while one member stops polling."""
        life = new_life(20)
        three = life.start("one", "two", "three")
        life.wait_until_shared_by(three)
        steady = Steady(three, life.writing)
        seven = life.start(*(f"more-{number}" for number in range(7)))
        life.stall("one")
        others = Steady(three[1:], life.writing)
        life.wait_until_shared_by(three + seven)
        if self.is_incremental:
            steady.check_that_they_kept_what_they_keep()
            others.check_that_they_read_on()
        steady = Steady(three, life.writing)
        life.stall("more-0")
        life.stop(*seven)
        life.wait_until_shared_by(three)
        if self.is_incremental:
            steady.check_that_they_kept_what_they_keep()
            steady.check_that_they_read_on()
        life.check_that_nothing_was_lost(three)

    def test_a_member_that_is_stopped_past_its_session(self, new_life: Callable[[int], Life]) -> None:
        """Other members take over from a member that is stopped past its session timeout. The coordinator refuses a
        commit with the old member id, and the member joins again when it resumes."""
        life = new_life(6)
        members = life.start("zombie", "two", "three")
        zombie, *others = members
        life.wait_until_shared_by(members)
        with Wire(life.bootstrap) as wire:
            told = next(each for each in describe_members(wire, life.group) if each.client_id == "zombie")
            steady = Steady(others, life.writing)
            life.processes["zombie"].pause()
            life.wait_until_shared_by(others)
            if self.is_incremental:
                steady.check_that_they_kept_what_they_keep()
                steady.check_that_they_read_on()
            refused = _commit(wire, life, told.member_id, max(told.epoch, 1), (zombie.assignment or [0])[0])
            assert refused in REFUSALS, refused.name
        life.processes["zombie"].go_on()
        life.wait_until_shared_by(members)
        life.check_that_nothing_was_lost(members)

    def test_a_topic_that_grows_while_it_is_written(self, new_life: Callable[[int], Life]) -> None:
        """Members read new partitions from their beginning when a topic grows from six partitions to twelve."""
        life = new_life(6)
        members = life.start("one", "two", "three")
        life.wait_until_shared_by(members)
        steady = Steady(members, life.writing)
        life.grow(12)
        life.wait_until_shared_by(members)
        if self.is_incremental:
            steady.check_that_they_kept_what_they_keep()
            steady.check_that_they_read_on()
        life.check_that_nothing_was_lost(members)


def _commit(wire: Wire, life: Life, member_id: str, epoch: int, partition: int) -> ErrorCode:
    """Commits offset 0 of a partition as the given member, and returns the error code."""
    part = OffsetCommitRequestPartition(partition_index=partition, committed_offset=0)
    request = OffsetCommitRequest(
        group_id=life.group,
        member_id=member_id,
        generation_id_or_member_epoch=epoch,
        topics=[OffsetCommitRequestTopic(name=life.topic, partitions=[part])],
    )
    (topic,) = wire.call(OffsetCommitResponse, 9, request).topics
    return ErrorCode(topic.partitions[0].error_code)
