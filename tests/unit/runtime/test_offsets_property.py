"""Tests I17 with random operations: OffsetFetch returns the last acknowledged commit.

The operations are commits, fetches, turns of the event loop, refused appends, slow replicas, restarts and failovers,
in any order, with and without linger. A commit whose answer is missing or an error may take effect or not, as with any
broker. A later commit that is acknowledged settles the offset.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.support.examples import examples
from tests.unit.runtime.coordinator_world import P0, CoordinatorWorld
from tests.unit.runtime.fake_ports import MemoryLog, Pledge

from klamm.protocol.errors import ErrorCode

GROUPS = ("orders", "audit")
TOPICS = ("events", "flights")
NOTHING = -1

groups = st.sampled_from(GROUPS)
topics = st.sampled_from(TOPICS)


class Offsets(RuleBasedStateMachine):
    """One coordinator, and for each offset the values that its clients consider possible, the oldest first."""

    def __init__(self) -> None:
        super().__init__()
        self.possible = {(group, topic): [NOTHING] for group in GROUPS for topic in TOPICS}
        self.asked: list[tuple[tuple[str, str], int, Any]] = []

    @initialize(linger_ms=st.sampled_from([-1, 0, 5]))
    def begin(self, linger_ms: int) -> None:
        self.world = CoordinatorWorld(log=MemoryLog(max_batch_bytes=700), linger_ms=linger_ms)

    # Operations of clients

    @rule(group=groups, offsets=st.lists(st.tuples(topics, st.integers(0, 2)), min_size=1, max_size=4))
    def commit(self, group: str, offsets: list[tuple[str, int]]) -> None:
        """Commits a few offsets at once, so that some meet. The values are few, so that many commits repeat an
        offset."""
        for topic, offset in offsets:
            answer = self.world.commit(offset, group_id=group, topic=topic)
            self.possible[group, topic].append(offset)
            self.asked.append(((group, topic), len(self.possible[group, topic]) - 1, answer))

    @rule(group=groups, topic=topics)
    def fetch(self, group: str, topic: str) -> None:
        answer = self.world.fetch(group_id=group, topic=topic)
        self.note_answers()
        if not self.world.is_waiting(answer):
            self.check(group, topic, answer)

    # Events at the broker

    @rule()
    def turn_ends(self) -> None:
        self.world.timers.advance(0)

    @rule(milliseconds=st.sampled_from([1, 5, 5000]))
    def time_passes(self, milliseconds: int) -> None:
        self.world.timers.advance(milliseconds)

    @rule(error=st.sampled_from([None, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR]))
    def log_refuses(self, error: ErrorCode | None) -> None:
        self.world.log.append_error = error

    @rule(holds=st.booleans())
    def replicas_follow_slowly(self, holds: bool) -> None:
        self.world.log.holds_high_watermark = holds
        if not holds:
            self.world.log.commit(P0)

    @rule()
    def replicas_have_followed(self) -> None:
        self.world.log.commit(P0)

    @rule()
    def broker_restarts(self) -> None:
        """Restarts the broker; written records survive, whether they were acknowledged or not."""
        self.note_answers()
        self.world.log.commit(P0)
        self.world = self.world.restart()
        self.asked.clear()

    @rule()
    def broker_dies_and_another_leads(self) -> None:
        """Fails over to another broker; records that were not committed are lost."""
        self.note_answers()
        log = self.world.log.partition(P0)
        log.batches = [batch for batch in log.batches if batch[1] <= log.high_watermark]
        log.log_end_offset = log.high_watermark
        log.listeners.clear()
        self.world = self.world.restart()
        self.asked.clear()

    @rule()
    def leadership_comes_back(self) -> None:
        """Checks that a replay of the log gives the current state."""
        before = self.world.shard().store
        reloaded = CoordinatorWorld(log=self.world.log)
        assert reloaded.shard().store == before

    # Checks

    @invariant()
    def note_answers(self) -> None:
        """Leaves only the acknowledged commit and later commits as possible values."""
        still_asked = []
        for where, index, answer in self.asked:
            if isinstance(answer, Pledge) and not answer.done():
                still_asked.append((where, index, answer))
            elif self.world.now(answer).topics[0].partitions[0].error_code == ErrorCode.NONE:
                self.possible[where][:index] = [self.possible[where][index]] * index
        self.asked = still_asked

    def check(self, group: str, topic: str, answer: Any) -> None:
        partition = self.world.now(answer).topics[0].partitions[0]
        if partition.error_code == ErrorCode.NONE:
            possible, offset = self.possible[group, topic], partition.committed_offset
            assert offset in possible
            # After a client has fetched this value, older values are no longer possible.
            index = possible.index(offset)
            possible[:index] = [offset] * index

    def teardown(self) -> None:
        """Ends all faults, then checks every offset and checks that a new commit is fetched, also after a restart."""
        self.world.log.append_error = None
        self.world.log.holds_high_watermark = False
        self.world.log.commit(P0)
        self.world.timers.advance(5)
        self.note_answers()
        for group in GROUPS:
            for topic in TOPICS:
                self.check(group, topic, self.world.fetch(group_id=group, topic=topic))
                self.world.commit(9, group_id=group, topic=topic)
                self.world.timers.advance(5)
                assert self.world.fetched(group_id=group, topic=topic) == 9
                assert self.world.restart().fetched(group_id=group, topic=topic) == 9
                self.world = self.world.restart()


TestOffsets = Offsets.TestCase
TestOffsets.settings = settings(
    max_examples=examples(120), stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
