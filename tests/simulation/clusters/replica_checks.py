"""The properties of replication that are checked at each moment: at each change in the metadata store, whenever a high
watermark rises, and whenever a log is truncated.

They are those of Vanlightly's TLA+ specification of KIP-966. A world that waits until a replica without committed
records is elected needs several faults in a row to see a bug. These checks see the moment at which it becomes possible:
a replica may be elected and lacks a committed record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from tests.simulation.clusters.compaction_checks import CompactionChecks
from tests.simulation.clusters.log_batches import StoredBatch, batches_of
from tests.simulation.clusters.metadata_rules import (
    changed_partitions,
    check_change,
    check_new_runs,
    check_sets,
    is_unclean,
)
from tests.simulation.clusters.replica_states import ReplicaStates
from tests.simulation.clusters.truncations import TruncationChecks
from tests.simulation.violation import Violation

from klamm.broker.partitions import partition as partition_module
from klamm.broker.partitions.followers import Followers
from klamm.broker.partitions.partition import Partition
from klamm.core.log.retention import SegmentFacts
from klamm.metadata.entries import apply
from klamm.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionImage, TopicImage
from klamm.metadata.metadata_store import Versioned
from klamm.protocol.errors import KafkaError
from klamm.protocol.internal_topic_names import TRANSACTIONS_TOPIC
from klamm.protocol.types import ZERO_TOPIC_ID, BrokerId, Millis, Offset, TopicPartition
from klamm.storage.log.log_retention import LogRetention
from klamm.storage.log.log_truncation import LogTruncation

if TYPE_CHECKING:
    from tests.simulation.brokers.machine import Machine
    from tests.simulation.clusters.replicated import ReplicaWorld

    from klamm.storage.log.log import Log
    from klamm.storage.log.log_state import LogState

__all__ = ["ReplicaChecks", "naming_followers"]

Committed = Callable[[MetadataImage, MetadataImage], None]


class _EndOfFollower(int):
    """An end offset that a follower has told, with the follower's name: a leader keeps no names with the offsets for
    which it waits."""

    follower: BrokerId


@contextmanager
def naming_followers() -> Iterator[None]:
    """Lets leaders know the offsets of their followers by name while the context is open."""
    fetched, next_high_watermark = Followers.fetched, vars(partition_module)["next_high_watermark"]

    def without_name(*arguments: Any) -> Offset:
        return Offset(int(next_high_watermark(*arguments)))

    def named(followers: Followers, partition: Partition, broker_id: BrokerId, *arguments: Any) -> None:
        broker_epoch, end_offset, *rest = arguments
        end = _EndOfFollower(end_offset)
        end.follower = broker_id
        fetched(followers, partition, broker_id, broker_epoch, Offset(end), *rest)

    with (
        patch.object(Followers, "fetched", named),
        patch.object(partition_module, "next_high_watermark", without_name),
    ):
        yield


class ReplicaChecks:
    """The checks of a world. They report to the world, and never disturb the broker in which they run."""

    def __init__(self, world: ReplicaWorld) -> None:
        self._world = world
        self.machines = world.machines
        self.image: MetadataImage = EMPTY_IMAGE
        """The metadata at the newest revision."""
        self.observers: list[Committed] = []
        """Are called with the metadata before and after each commit."""
        self.committed: dict[TopicPartition, int] = {}
        """The highest high watermark that a leader has had: every record below it is committed."""
        self._batches: dict[TopicPartition, list[StoredBatch]] = {}
        self._matched: dict[Log, int] = {}
        """Up to which offset the committed part of a log was compared."""
        self._starts: dict[Log, int] = {}
        """The log start offsets when the world looked last."""
        self._fetched: dict[tuple[TopicPartition, int, BrokerId], int] = {}
        """By leader epoch and follower, the epoch of the follower's run that fetched last."""
        self._led: dict[tuple[TopicPartition, BrokerId], int] = {}
        """The leader epoch in which a broker began to lead last."""
        self._recovering: set[TopicPartition] = set()
        """Partitions whose next leader may lack committed records, as the metadata have recorded."""
        self._has_lost: set[TopicPartition] = set()
        """Partitions that have lost committed records as recorded."""
        self._had_unclean_elections: set[TopicPartition] = set()
        """Partitions whose former leader may still commit records that the next leader lacks."""
        self._shown: dict[TopicPartition, int] = {}
        """The highest high watermark of a leader since the last loss. It may be above what counts as committed: a
        leader that has not heard of its own next epoch goes on to acknowledge records."""
        self.states = ReplicaStates(self)
        self._compaction = CompactionChecks(self, self._report)

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Watches high watermarks, fetches and truncations while the context is open."""
        with ExitStack() as stack:
            truncations = TruncationChecks(self._world, self._report, self._committed_batches)
            stack.enter_context(truncations.attached())
            stack.enter_context(self._compaction.attached())
            stack.enter_context(naming_followers())
            self._watch(stack)
            yield

    def _watch(self, stack: ExitStack) -> None:
        rise, fetched, truncate = Partition._raise_high_watermark, Followers.fetched, LogTruncation.truncate_to

        def watched_rise(partition: Partition, held: Offset) -> None:
            before = partition.log.high_watermark
            rise(partition, held)
            if partition.log.high_watermark != before:
                self._report(lambda: self._has_moved(partition, before))

        def watched_fetch(followers: Followers, partition: Partition, broker_id: BrokerId, *arguments: Any) -> None:
            where = partition.log.topic_partition
            self._fetched[where, partition.leader_epoch, broker_id] = arguments[0]
            fetched(followers, partition, broker_id, *arguments)

        def watched_truncation(truncation: LogTruncation, offset: Offset, *arguments: Any) -> bool:
            is_cut = truncate(truncation, offset, *arguments)
            if is_cut:
                where = truncation._log.topic_partition
                self._report(lambda: self._check_candidates(where, "a log was truncated"))
                self._report(lambda: self._compaction.check(where, "a log was truncated"))
            return is_cut

        delete = LogRetention.delete_records_before

        def watched_deletion(retention: LogRetention, offset: Offset) -> Offset:
            start = delete(retention, offset)
            model = self._world.model.partitions.get(retention._log.topic_partition)
            if model is not None:
                model.deleted = max(model.deleted, int(offset))
            return start

        delete_old = LogRetention.delete_old_segments

        def watched_retention(retention: LogRetention, now_ms: Millis) -> int:
            log = retention._log
            start, before = log.log_start_offset, _facts_of(retention)
            try:
                return delete_old(retention, now_ms)
            finally:
                # If the process dies between two renames, its next run finds the segment deleted.
                if log.log_start_offset > start:
                    self._report(lambda: self._has_retained(log, start, before, now_ms))

        begin_proposal = Followers.begin_proposal

        def watched_proposal(followers: Followers, partition: Partition) -> Any:
            members = begin_proposal(followers, partition)
            if members is not None and partition.log.is_offline:
                self._report(lambda: self._check_usable(partition))
            return members

        stack.enter_context(patch.object(Followers, "begin_proposal", watched_proposal))
        stack.enter_context(patch.object(Partition, "_raise_high_watermark", watched_rise))
        stack.enter_context(patch.object(Followers, "fetched", watched_fetch))
        stack.enter_context(patch.object(LogTruncation, "truncate_to", watched_truncation))
        stack.enter_context(patch.object(LogRetention, "delete_records_before", watched_deletion))
        stack.enter_context(patch.object(LogRetention, "delete_old_segments", watched_retention))

    def _report(self, check: Callable[[], None]) -> None:
        try:
            check()
        except Violation as violation:
            self._world.fail(violation)

    # The metadata

    def written(self, revision: int, entries: Mapping[str, Versioned | None]) -> None:
        """Checks a commit of the metadata store."""
        before, self.image = self.image, apply(self.image, revision, entries)
        self.states.written(self.image)
        self._report(lambda: self._check_commit(before, self.image))
        for observer in self.observers:
            observer(before, self.image)

    def _check_commit(self, before: MetadataImage, after: MetadataImage) -> None:
        for name in before.topics:
            if before.topics[name] is not after.topics.get(name):
                old, new = before.topics[name], after.topics.get(name)
                if new is None or new.topic_id != old.topic_id:
                    self._forget(name)
        if before.topics is not after.topics or before.configs is not after.configs:
            check_sets(after)
        check_new_runs(before, after, lambda where: self.committed.get(where, 0) > 0)
        for where, earlier, partition in changed_partitions(before, after):
            if earlier is not None:
                allows_unclean = self._world.cluster.has_unclean_elections and where.topic != TRANSACTIONS_TOPIC
                runs_before = before.live if allows_unclean else None
                joined = check_change(after, where, earlier, partition, runs_before=runs_before)
                for number in sorted(joined):
                    self._check_has_fetched(where, earlier, number)
                if runs_before is not None and is_unclean(earlier, partition):
                    self.note("the election of broker %d for %s is allowed to be unclean", partition.leader, str(where))
                if is_unclean(earlier, partition) and self._world.may_lose:
                    self._recovering.add(where)
                    self._had_unclean_elections.add(where)
            self._check_candidates(where, "the metadata have changed")

    def _check_has_fetched(self, where: TopicPartition, before: PartitionImage, number: BrokerId) -> None:
        """Checks that a replica that joins has fetched in this leader epoch, and has not started again since."""
        run = self._fetched.get((where, before.leader_epoch, number))
        present = self.image.brokers[number].epoch
        if run != present:
            raise Violation(
                3,
                f"broker {number} joins the in-sync replicas of {where} in leader epoch {before.leader_epoch}:"
                f" its run {present} has not fetched, the last fetch was of run {run}",
            )

    def _check_usable(self, partition: Partition) -> None:
        """Fails, because a leader proposes in-sync replicas although its log is offline (I8).

        No follower can fetch from this log, so all of them lag. If the leader removes them, no other replica may lead.
        """
        raise Violation(8, f"the leader of {partition} proposes in-sync replicas, and its log is offline")

    def _committed_batches(self, where: TopicPartition) -> Iterable[StoredBatch]:
        """Returns the committed batches that no recorded election may lose."""
        return () if where in self._recovering else self._batches.get(where, ())

    def _forget(self, topic: str) -> None:
        for state in (self.committed, self._batches, self._shown):
            for where in [each for each in state if each.topic == topic]:
                del state[where]
        self._compaction.forget(topic)

    # Records

    def _has_moved(self, partition: Partition, before: Offset) -> None:
        log, where = partition.log, partition.log.topic_partition
        now = log.high_watermark
        topic = self.image.topics.get(where.topic)
        if topic is None or not _is_of(log, topic) or len(partition.image.replicas) == 1:
            return
        if now < before:
            raise Violation(5, f"the high watermark of {where} falls from {before} to {now}")
        self._world.check_session(partition)
        is_rightful = topic.partitions[where.partition].leader_epoch == partition.leader_epoch
        self._shown[where] = max(int(now), self._shown.get(where, 0))
        if where in self._has_lost | self._had_unclean_elections and not is_rightful:
            return  # What it commits does not count, and it holds what is lost.
        if now > self.committed.get(where, 0):
            if where in self._world.model.partitions:
                known = self._batches.setdefault(where, [])
                start = known[-1].next_offset if known else int(log.log_start_offset)
                known.extend(batches_of(log, start, int(now)))
            self.committed[where] = int(now)
            self._compaction.committed(where, log, now)
        if is_rightful:
            self._check_quorum(partition, int(now))
            self._check_synced(partition, int(now))
        self._check_candidates(where, f"the high watermark rises to {now}")
        if is_rightful and where in self._world.model.partitions:
            self._world.has_committed(partition.image.leader)

    def _check_quorum(self, partition: Partition, high_watermark: int) -> None:
        """Checks that a leader waits for each replica that may be elected, whether or not the replica happens to hold
        the records (`ReplicationQuorumSuperset`, I5)."""
        where, followers = partition.log.topic_partition, partition.followers
        known = self.image.topics[where.topic].partitions[where.partition]
        needed = {*known.isr, *known.elr} - {known.leader}
        progress = {} if followers is None else followers._progress
        ends = () if followers is None else followers.end_offsets
        # A follower that has not fetched in this leader epoch has no name. The high watermark does not rise then.
        if needed - {end.follower for end in ends if isinstance(end, _EndOfFollower)}:
            held = {int(number): int(each.end_offset) for number, each in progress.items()}
            raise Violation(
                5,
                f"the high watermark of {where} rises to {high_watermark}, and its leader waits for {list(ends)}:"
                f" in sync are {list(known.isr)}, eligible {list(known.elr)}, and its followers have {held}",
            )

    def _check_synced(self, partition: Partition, high_watermark: int) -> None:
        """Checks that a record is on the disk of all in-sync replicas when it is committed (`klamm.fsync=ack`)."""
        where = partition.log.topic_partition
        if self._world.plan.fsync != "ack" or where in self._recovering:
            return
        for number in self.image.topics[where.topic].partitions[where.partition].isr:
            log = self._log_of(number, where)
            if log is not None and log.recovery_point < high_watermark:
                end = log.recovery_point
                raise Violation(
                    4, f"offset {high_watermark - 1} of {where} is committed, and broker {number} has synced {end}"
                )

    def _check_candidates(self, where: TopicPartition, when: str) -> None:
        """Checks that all replicas that may be elected hold all committed records (`LeaderCandidateCompleteness`)."""
        committed = self.committed.get(where, 0)
        if not committed or where in self._recovering:
            return
        for number, log in self._candidates(where):
            end = -1 if log is None else int(log.log_end_offset)
            if end < committed:
                partition = self.image.topics[where.topic].partitions[where.partition]
                raise Violation(
                    3,
                    f"broker {number} may lead {where} and ends at {end}, and {committed} is committed: {when},"
                    f" in sync are {list(partition.isr)}, eligible {list(partition.elr)}",
                )

    def _candidates(self, where: TopicPartition) -> Iterator[tuple[BrokerId, Log | None]]:
        """Yields the running brokers that may be elected, with their logs."""
        topic = self.image.topics.get(where.topic)
        if topic is None:
            return
        partition = topic.partitions[where.partition]
        for number in (*partition.isr, *partition.elr):
            machine = self._world.machines[number]
            if self.runs(number, machine):
                log = machine.logs.get(where)
                yield number, log if log is not None and _is_of(log, topic) else None

    def candidates(self, where: TopicPartition) -> Iterator[tuple[BrokerId, Log]]:
        """Yields the running brokers that may be elected, with their logs. Leaves out missing and offline logs."""
        for number, log in self._candidates(where):
            if log is not None and not log.is_offline:
                yield number, log

    def may_lack_records(self, where: TopicPartition) -> bool:
        """Returns whether the metadata have recorded an unclean election after which records are missing, or may be."""
        return where in self._has_lost or where in self._recovering

    def binds_next_leader(self, where: TopicPartition) -> bool:
        """Returns whether the next leader will have no record that the present leader lacks now, except new ones.

        An earlier leader may have appended a record that was not committed, the generation of a group, say. It may be
        left in a replica that may be elected and has not fetched in this leader epoch; a replica that has fetched has
        truncated its log. Until then the coordinator answers under the generation before, in which another member may
        have had the same partitions. As in Kafka, a new leader writes no record that rules this out, and an answer
        without a record waits for no follower (`CoordinatorRuntime`).
        """
        partition = self.image.topics[where.topic].partitions[where.partition]
        epoch, leader = partition.leader_epoch, partition.leader
        others = {*partition.isr, *partition.elr} - {leader}
        is_known = self._led.get((where, leader)) == epoch
        return is_known and all((where, epoch, number) in self._fetched for number in others)

    def note(self, template: str, *values: object) -> None:
        """Notes what has happened."""
        self._world.notes.add(template, *values)

    def runs(self, number: BrokerId, machine: Machine) -> bool:
        """Returns whether the broker's process is the run that the metadata know."""
        live, services = self.image.live.get(number), machine.services
        if live is None or services is None or not machine.is_serving or services.context is None:
            return False
        return services.context.metadata.incarnation == live.incarnation

    def _log_of(self, number: BrokerId, where: TopicPartition) -> Log | None:
        machine = self._world.machines[number]
        return machine.logs.get(where) if self.runs(number, machine) else None

    def begins_to_lead(self, partition: Partition) -> None:
        """Checks that a new leader holds all committed records (`LeaderCompleteness`, `ConsistentRead`)."""
        log, where = partition.log, partition.log.topic_partition
        self._led[where, partition.image.leader] = partition.leader_epoch
        topic = self.image.topics.get(where.topic)
        if topic is None or not _is_of(log, topic):
            return
        if topic.partitions[where.partition].leader_epoch != partition.leader_epoch:
            return  # It does not know yet that it does not lead any more.
        end, committed = int(log.log_end_offset), self.committed.get(where, 0)
        if where in self._recovering:
            self._recovering.discard(where)
            common = min(end, self._common_end(log, where))
            if common < committed:
                self._lose(where, common)
            elif end < self._shown.get(where, 0):
                self._lose(where, end)
            return
        if end < committed:
            epoch = partition.leader_epoch
            raise Violation(3, f"{where} ends at {end} in leader epoch {epoch}, and {committed} is committed")
        if where in self._batches:
            self._compare(log, where, int(log.log_start_offset), committed)
        self._compaction.check(where, f"a leader begins in epoch {partition.leader_epoch}")

    def _common_end(self, log: Log, where: TopicPartition) -> int:
        """Returns up to which offset a log has the committed batches. A power failure may also bring back records that
        were truncated, if the truncation was not on the disk."""
        start = int(log.log_start_offset)
        own = frozenset(batches_of(log, start, int(log.log_end_offset)))
        expected = [each for each in self._batches.get(where, ()) if each.base_offset >= start]
        return next((each.base_offset for each in expected if each not in own), self.committed.get(where, 0))

    def may_lose(self, partitions: Iterable[TopicPartition]) -> None:
        """Notes partitions whose only replica may have lost records. No election is recorded for them."""
        self._recovering.update(partitions)

    def _lose(self, where: TopicPartition, end: int) -> None:
        """Forgets the records that are lost, as the metadata have recorded."""
        self._world.notes.add("%s has lost its records from %d on, as the metadata tell", str(where), end)
        self.committed[where] = min(end, self.committed.get(where, 0))
        self._shown[where] = end
        self._has_lost.add(where)
        known = self._batches.get(where)
        if known is not None:
            self._batches[where] = [each for each in known if each.next_offset <= end]
        if where in self._world.model.partitions:
            # Producers have lost their place, also if the model knows none of the records.
            self._world.model.partitions[where].cuts += 1
            self._world.model.cut(where, end)

    def look(self) -> None:
        """Compares the committed parts of the replicas (`LogMatching`), and checks the states of the brokers."""
        self.states.look()
        for number, machine in self._world.machines.items():
            if not self.runs(number, machine):
                continue
            self._check_starts(number, machine)
            for where in self._batches:
                log = machine.logs.get(where)
                if log is None or log.is_offline:
                    continue  # A log that is offline can't be read. It is compared when its broker has started again.
                if where not in self._has_lost and where not in self._recovering:
                    bound = min(int(log.high_watermark), self.committed[where])
                    start = max(self._matched.get(log, 0), int(log.log_start_offset))
                    if bound > start:
                        self._compare(log, where, start, bound)
                        self._matched[log] = bound

    def _has_retained(self, log: LogState, start: Offset, before: Sequence[SegmentFacts], now_ms: Millis) -> None:
        """Checks what `retention.bytes` and `retention.ms` have left of a log, of a leader or a follower (I4).

        `start` and `before`: the log start offset and the segments that the log had.
        """
        where, now = log.topic_partition, log.log_start_offset
        model = self._world.model.partitions.get(where)
        if model is None:
            return
        model.deleted = max(model.deleted, int(now))
        rest_bytes = sum(segment.size_bytes for segment in before)
        least_bytes, longest_ms = log.config.retention_bytes, log.config.retention_ms
        for segment in before:
            if segment.end_offset > now:
                break
            rest_bytes -= segment.size_bytes
            age_ms = now_ms - segment.largest_timestamp
            is_old, is_too_much = 0 <= longest_ms < age_ms, 0 <= least_bytes <= rest_bytes
            if is_old and not is_too_much:
                self._world.notes.add("retention deletes old records of %s", str(where))
            if not (is_old or is_too_much or segment.end_offset <= start):
                what = f"{least_bytes} must stay, and the newest of the deleted records is {age_ms} ms old"
                raise Violation(4, f"retention leaves {rest_bytes} bytes of {where} from offset {now} on: {what}")
        self._world.notes.add("retention leaves %d bytes of %s from offset %d on", rest_bytes, str(where), now)
        if now > log.high_watermark:
            raise Violation(4, f"retention deletes {where} up to {now}, and it is committed up to {log.high_watermark}")

    def _check_starts(self, number: BrokerId, machine: Machine) -> None:
        """Checks that a log has lost no record at its beginning that nobody has deleted (I4), and that no deleted
        record comes back while a broker runs."""
        for where, model in self._world.model.partitions.items():
            log = machine.logs.get(where)
            if log is None or log.is_offline:
                continue
            start, before = int(log.log_start_offset), self._starts.get(log, 0)
            if start > model.deleted:
                what = f"and its records are deleted up to {model.deleted}"
                raise Violation(4, f"the log of {where} on broker {number} begins at {start}, {what}")
            if start < before:
                raise Violation(7, f"the log of {where} on broker {number} begins at {start}, and began at {before}")
            self._starts[log] = start

    def _compare(self, log: Log, where: TopicPartition, start: int, end: int) -> None:
        start = max(start, self._world.model.partitions[where].deleted)  # see `Model.see`
        own = [each for each in batches_of(log, start, end) if each.base_offset >= start]
        expected = [each for each in self._batches[where] if each.base_offset >= start and each.next_offset <= end]
        if own != expected:
            first = next((each for each in expected if each not in own), expected[-1] if expected else None)
            raise Violation(2, f"a replica of {where} holds other committed records: {first} is missing")


def _facts_of(retention: LogRetention) -> Sequence[SegmentFacts]:
    """Returns the segments of a log for retention; none if the log can't be read, so that retention fails too."""
    log = retention._log
    try:
        return retention._reader.look_up(lambda: log.segments.facts(log.log_end_offset))
    except KafkaError:
        return ()


def _is_of(log: Log, topic: TopicImage) -> bool:
    """Returns whether the log is of the topic; a folder may have lost the file with its id."""
    return log.topic_id in (topic.topic_id, ZERO_TOPIC_ID)
