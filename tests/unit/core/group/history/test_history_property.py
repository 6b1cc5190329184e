"""A property test of the history of a classic group under random clients, time, failures and restarts."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import HealthCheck, settings
from hypothesis.stateful import invariant
from tests.support.examples import examples
from tests.unit.core.group.history.shard_history import ShardHistory
from tests.unit.core.group.test_group_property import GroupMachine


class HistoryMachine(GroupMachine):
    """The state machine of the classic group test, with checks of the history records after each step."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = ShardHistory(self.config)

    @property
    def history(self) -> ShardHistory:
        """Returns the driver of the current coordinator."""
        assert isinstance(self.driver, ShardHistory)
        return self.driver

    @property
    def records(self) -> list[dict[str, object]]:
        return self.history.records

    @invariant()
    def records_are_counted_without_a_gap(self) -> None:
        """Sequences have no gap, start at 0 for a new coordinator or group, and only the first may be a takeover."""
        for earlier, later in pairwise(self.records):
            if earlier["outcome"] == "deleted":
                assert later["sequence"] == 0
            elif later["coordinator_epoch"] == earlier["coordinator_epoch"]:
                assert later["sequence"] == earlier["sequence"] + 1  # type: ignore[operator]
                assert later["outcome"] != "taken_over"
            else:
                assert later["sequence"] == 0

    @invariant()
    def every_change_begins_where_the_one_before_has_ended(self) -> None:
        """Each change of a coordinator begins with the epoch and the members with which the previous change ended.

        A group that is created again begins as a new one.
        """
        for earlier, later in pairwise(self.records):
            if earlier["outcome"] == "deleted":
                assert (later["previous_epoch"], later["members_before"]) == (0, [])
            elif later["coordinator_epoch"] == earlier["coordinator_epoch"]:
                assert later["previous_epoch"] == earlier["epoch"]
                assert later["members_before"] == earlier["members_after"]
            assert later["started_ms"] >= earlier["started_ms"]  # type: ignore[operator]

    @invariant()
    def every_change_has_a_cause_and_an_end(self) -> None:
        """Each change has a known cause and an end, and raises the epoch by at most one."""
        for record in self.records:
            causes = record["causes"]
            assert isinstance(causes, list)
            assert causes
            assert "unknown" not in [cause["code"] for cause in causes]
            assert record["epoch"] - record["previous_epoch"] in (0, 1)  # type: ignore[operator]
            assert record["finished_ms"] >= record["started_ms"]  # type: ignore[operator]
            assert (record["outcome"] == "empty") <= (record["members_after"] == [])

    def teardown(self) -> None:
        """Once failures end, the last record shows the stable group."""
        super().teardown()
        self.records_are_counted_without_a_gap()
        self.every_change_begins_where_the_one_before_has_ended()
        self.every_change_has_a_cause_and_an_end()
        group = self.driver.shard.classic_groups.find("orders")
        if group is not None and group.members and self.records:
            last = self.records[-1]
            members = last["members_after"]
            assert isinstance(members, list)
            if last["coordinator_epoch"] == self.history.epoch:
                assert last["outcome"] in ("stable", "taken_over")
                assert last["epoch"] == group.generation
                assert {member["member"] for member in members} == group.members.keys()


TestHistory = HistoryMachine.TestCase
TestHistory.settings = settings(
    max_examples=examples(200), stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)
