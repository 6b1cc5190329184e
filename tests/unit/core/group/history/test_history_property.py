"""The history of a classic group under random clients, time, failures and restarts: it is one story."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import HealthCheck, settings
from hypothesis.stateful import invariant
from tests.support.examples import examples
from tests.unit.core.group.history.shard_history import ShardHistory
from tests.unit.core.group.test_group_property import GroupMachine


class HistoryMachine(GroupMachine):
    """The clients of the group's own test; what their shard tells is looked at after every step."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = ShardHistory(self.config)

    @property
    def history(self) -> ShardHistory:
        """The present coordinator's."""
        assert isinstance(self.driver, ShardHistory)
        return self.driver

    @property
    def records(self) -> list[dict[str, object]]:
        return self.history.records

    @invariant()
    def records_are_counted_without_a_gap(self) -> None:
        """Each coordinator counts from 0, again from 0 after the group was deleted, and takes over at most once."""
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
        """Unless an epoch is missing: then a decision could not be written, or the coordinator has changed.

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
        """And raises the epoch by one, or not at all."""
        for record in self.records:
            causes = record["causes"]
            assert isinstance(causes, list)
            assert causes
            assert "unknown" not in [cause["code"] for cause in causes]
            assert record["epoch"] - record["previous_epoch"] in (0, 1)  # type: ignore[operator]
            assert record["finished_ms"] >= record["started_ms"]  # type: ignore[operator]
            assert (record["outcome"] == "empty") <= (record["members_after"] == [])

    def teardown(self) -> None:
        """Once the group is at rest its last change says so."""
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
