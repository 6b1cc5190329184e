"""Plans the offsets that a read or a micro-batch covers, and reports offsets that the log no longer has.

The rules and the texts are those of `KafkaOffsetReaderAdmin` and `KafkaMicroBatchStream` in Spark. The log is accessed
through `LogOffsets`, so that the rules need no broker.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from klamm.protocol.types import LeaderEpoch, Millis, Offset, TopicId, TopicPartition
from klamm.spark.source.errors import LossPolicy, OptionError
from klamm.spark.source.offsets import EARLIEST_OFFSET, LATEST_OFFSET, OffsetRange, PartitionOffsets
from klamm.spark.source.options.options import OffsetRetries
from klamm.spark.source.options.positions import AtTimestamp, AtTimestamps, OffsetLimit
from klamm.spark.source.options.read_limits import Division
from klamm.spark.source.planning.range_division import divide

if TYPE_CHECKING:
    from klamm.spark.source.group.group_commits import GroupCommits

__all__ = ["LogOffsets", "OffsetRange", "Planner", "Restriction", "committed_start"]

_NOWHERE: Final[Mapping[TopicPartition, Offset]] = MappingProxyType({})
_NONE: Final = Offset(-1)
"""The offset of a timestamp without a record at this time or later."""


class Restriction(Protocol):
    """Pushed-down filters; implemented by `klamm.spark.source.planning.pushed_filters.Restriction`."""

    def leaves_out(self, topic: str, partition: int | None, start: int, /) -> bool:
        """Returns whether the filters exclude a topic, or one of its partitions, from an offset on."""

    def apply(
        self,
        ranges: Sequence[OffsetRange],
        offsets_at: Callable[[Mapping[TopicPartition, Millis]], PartitionOffsets],
        ends: Mapping[TopicPartition, Offset],
        /,
    ) -> list[OffsetRange]:
        """Returns the ranges reduced by the filters. `offsets_at` is `LogOffsets.at`, `ends` an earlier result of
        `LogOffsets.latest`."""


class LogOffsets(Protocol):
    """The planner's queries to the cluster about the subscribed partitions."""

    def latest(self) -> PartitionOffsets:
        """Returns the end of each subscribed partition that exists now."""

    def doubt(self) -> None:
        """Asks another broker for the leaders, before `latest` is called again because its result is implausible."""

    def earliest(self, topic_partitions: Collection[TopicPartition]) -> PartitionOffsets:
        """Returns the start of each of these partitions that exists."""

    def at(self, timestamps_ms: Mapping[TopicPartition, Millis]) -> PartitionOffsets:
        """Returns the offset of each partition's first record at its time or later; -1 if there is none."""

    def last(self, topic_partitions: Collection[TopicPartition]) -> PartitionOffsets:
        """Returns the end of each of these partitions that exists, records of open transactions included."""

    def missing(self) -> Collection[str | TopicPartition]:
        """Returns the missing topics, or missing partitions if partitions are assigned, as of the last call of
        `latest`."""

    def know(self, topics: Collection[str]) -> None:
        """Fetches the ids and leaders of those of the topics that are not known yet."""

    def topic_id(self, topic: str) -> TopicId | None:
        """Returns the topic's id when it was first seen; None if brokers give none."""

    def leader_epoch(self, topic_partition: TopicPartition) -> LeaderEpoch:
        """Returns the newest known leader epoch of the partition; -1 if none is known."""

    def made_anew(self) -> Collection[str]:
        """Returns the topics that were deleted and recreated since they were first seen, each only once."""


class Planner:
    """Computes the ranges of offsets from the options and the state of the log."""

    def __init__(
        self,
        log: LogOffsets,
        loss: LossPolicy,
        sleep: Callable[[float], None],
        *,
        division: Division = Division(),  # noqa: B008 (it can't be changed)
        retries: OffsetRetries = OffsetRetries(),  # noqa: B008
        restriction: Restriction | None = None,
    ) -> None:
        """Takes a `restriction` for batch reads: excluded partitions and offsets do not count as lost."""
        self._log = log
        self._loss = loss
        self._sleep = sleep
        self._division = division
        self._attempts = retries.attempts
        self._seconds_between = retries.interval_ms / 1000
        self._restriction = restriction
        self.without_record: frozenset[TopicPartition] = frozenset()
        """The partitions without a record at the time of the last `resolve`, or later."""
        self._missing: frozenset[str | TopicPartition] = frozenset()
        """The known missing topics and partitions: each is reported once, if the query continues without it."""
        self.gone: frozenset[TopicPartition] = frozenset()
        """The partitions at the query's position that did not exist at the last call of `require`."""
        self._ends: PartitionOffsets = {}
        """The ends of the partitions at the last call of `existing`."""
        self._recreated: set[str] = set()
        """The recreated topics, until a micro-batch has reported them."""

    def resolve(self, option: str, limit: OffsetLimit) -> PartitionOffsets:
        """Returns the offset of every subscribed partition at a limit.

        Raises `OptionError` if the limit names other partitions than the subscribed ones, or a time for which a
        partition has no record.
        """
        latest = self.existing()
        if limit == "latest":
            return latest
        if limit == "earliest":
            return self._log.earliest(latest)
        if isinstance(limit, AtTimestamp):
            return self._at(dict.fromkeys(latest, limit.timestamp_ms), latest, latest_if_none=limit.latest_if_none)
        if isinstance(limit, AtTimestamps):
            if limit.timestamps_ms.keys() != latest.keys():
                raise OptionError(
                    f"Partitions specified for Kafka timestamp based offsets ({option}) don't match what are assigned. "
                    "Maybe topic partitions are created or deleted while the query is running, or you didn't specify "
                    f"all the partitions. Specified: {_listed(limit.timestamps_ms)} Assigned: {_listed(latest)}"
                )
            return self._at(limit.timestamps_ms, latest, latest_if_none=limit.latest_if_none)
        if not isinstance(limit, dict):
            raise OptionError(f"{option}={limit}: where the group stands is not known here")
        return self._specific(option, limit, latest)

    def _specific(self, option: str, limit: PartitionOffsets, latest: PartitionOffsets) -> PartitionOffsets:
        if limit.keys() != latest.keys():
            raise OptionError(
                f"Partitions specified for Kafka offsets don't match what are assigned. "
                f"If {option} contains specific offsets, you must specify all TopicPartitions. "
                "Use -1 for latest, -2 for earliest, if you don't care. "
                f"Specified: {_listed(limit)} Assigned: {_listed(latest)}"
            )
        wanted = {topic_partition for topic_partition, offset in limit.items() if offset == EARLIEST_OFFSET}
        earliest = self._log.earliest(wanted) if wanted else {}
        return {
            topic_partition: latest[topic_partition]
            if offset == LATEST_OFFSET
            else earliest.get(topic_partition, offset)
            for topic_partition, offset in limit.items()
        }

    def _at(
        self, timestamps_ms: Mapping[TopicPartition, Millis], latest: PartitionOffsets, *, latest_if_none: bool
    ) -> PartitionOffsets:
        """Resolves timestamps. `latest` was fetched before, so that no newer record is skipped."""
        found = self._log.at(timestamps_ms) if timestamps_ms else {}
        self.without_record = frozenset(key for key, offset in found.items() if offset == _NONE)
        if self.without_record and not latest_if_none:
            first = min(self.without_record)
            raise OptionError(
                f"No offset matched from request of topic-partition {first} and timestamp {timestamps_ms[first]}."
            )
        return {key: latest[key] if key in self.without_record else offset for key, offset in found.items()}

    def existing(self) -> PartitionOffsets:
        """Returns the end of each subscribed partition; reports missing topics and partitions."""
        self._ends = self.settled()
        self._missing = frozenset(self._not_there())
        self._tell_missing(self._missing)
        return self._ends

    def settled(self) -> PartitionOffsets:
        """Returns the end of each subscribed partition; retries for a while if one does not exist."""
        # Not every broker may know a new topic yet.
        return self._asked(lambda latest: not self._not_there())

    def _not_there(self) -> list[str | TopicPartition]:
        return [
            place
            for place in self._log.missing()
            if not (self._leaves_out(place, None) if isinstance(place, str) else self._leaves_out(*place))
        ]

    def _leaves_out(self, topic: str, partition: int | None, start: int = 0) -> bool:
        return self._restriction is not None and self._restriction.leaves_out(topic, partition, start)

    def latest_since(self, start: Mapping[TopicPartition, Offset]) -> PartitionOffsets:
        """Returns the end of each subscribed partition; retries for a while if an end is before `start`, or missing.

        `start` is the query's position. An end is not before it if only an open transaction hides later records.
        """
        # As in Spark: a newly elected leader may not know its high watermark yet, and a newly started broker may not
        # know all topics.
        return self._asked(lambda latest: not any(self._is_behind(key, at, latest) for key, at in start.items()), start)

    def not_before(
        self, start: Mapping[TopicPartition, Offset], latest: Mapping[TopicPartition, Offset]
    ) -> PartitionOffsets:
        """Returns `latest`; for a while retries the ends that are before the query's position `start`, or missing."""
        behind = [key for key, offset in start.items() if self._is_behind(key, offset, latest)]
        if not behind:
            return dict(latest)
        seen = self.latest_since(start)
        return {**latest, **{key: seen[key] for key in behind if key in seen}}

    def _is_behind(self, key: TopicPartition, offset: Offset, latest: Mapping[TopicPartition, Offset]) -> bool:
        if key in latest:
            return latest[key] < offset
        # Does not wait again for a known missing topic or partition.
        return not _is_named(key, self._missing)

    def _asked(
        self, is_plausible: Callable[[PartitionOffsets], bool], start: Mapping[TopicPartition, Offset] = _NOWHERE
    ) -> PartitionOffsets:
        latest = self._latest(start)
        for _ in range(self._attempts - 1):
            if is_plausible(latest):
                break
            self._sleep(self._seconds_between)
            self._log.doubt()
            latest = self._latest(start)
        return latest

    def _latest(self, start: Mapping[TopicPartition, Offset]) -> PartitionOffsets:
        latest = self._log.latest()
        if behind := {key for key, end in latest.items() if end < start.get(key, 0)}:
            # With read_committed, an older open transaction may hide records that the query has read; none of them is
            # lost.
            last = self._log.last(behind)
            latest.update((key, start[key]) for key in behind if last.get(key, _NONE) >= start[key])
        return latest

    def require(self, start: Mapping[TopicPartition, Offset], end: PartitionOffsets) -> PartitionOffsets:
        """Returns `end`, and reports partitions that are gone as lost.

        Gone partitions that the options name, directly or by their topic, keep the query's position until they return.
        Called before Spark stores the end, so that a failed query can continue from its position. Raises `DataLoss` or
        `MissingTopic`.
        """
        known, self._missing = self._missing, frozenset(self._not_there())
        gone = start.keys() - end.keys()
        # An end of AvailableNow may have missing partitions that were held before.
        self.gone = frozenset(key for key in start if key in gone or _is_named(key, self._missing))
        held = {key for key in gone if _is_named(key, self._missing)}
        if lost := {key for key in gone if not _is_named(key, known & self._missing)}:
            self._loss.report(f"{_listed(lost)} are gone. Some data may have been missed")
        self._tell_missing(self._missing - known - held - {key.topic for key in held})
        return {**end, **{key: start[key] for key in held}}

    def _tell_missing(self, places: Collection[str | TopicPartition]) -> None:
        if places:
            self._loss.report_missing(", ".join(sorted(map(str, places))))

    def back_to_start(self, start: Mapping[TopicPartition, Offset], end: PartitionOffsets) -> PartitionOffsets:
        """Returns `end`, with recreated topics at their start.

        So the checkpoint stores what only this process can detect. An end before the start is a loss whenever the
        micro-batch is planned, also after a restart. A query that continues reads the new topic from its start.
        """
        self._recreated.update(self._log.made_anew())
        if not self._recreated:
            return end
        recreated = {key for key in start.keys() & end.keys() if key.topic in self._recreated}
        return {**end, **{key: first for key, first in self._log.earliest(recreated).items() if first < start[key]}}

    def without_recreated(self, target: Mapping[TopicPartition, Offset]) -> PartitionOffsets:
        """Returns `target` without the topics that `back_to_start` has put back: it has the ends of the old topics."""
        return {key: offset for key, offset in target.items() if key.topic not in self._recreated}

    def start_of_new(
        self, start: Mapping[TopicPartition, Offset], latest: Mapping[TopicPartition, Offset]
    ) -> PartitionOffsets:
        """Returns `start`, plus the start of each additional partition in `latest`."""
        new = latest.keys() - start.keys()
        return {**start, **(self._log.earliest(new) if new else {})}

    def batch_ranges(self, starting: OffsetLimit, ending: OffsetLimit) -> list[OffsetRange]:
        """Returns the ranges of a batch read, reduced by the filters.

        Raises `OptionError`, or `DataLoss` for a start beyond the end.
        """
        start = self.resolve("startingOffsets", starting)
        end = self.resolve("endingOffsets", ending)
        for topic_partition in sorted(start.keys() & end.keys()):
            if start[topic_partition] > end[topic_partition] and all(
                _is_given(limit, topic_partition) for limit in (starting, ending)
            ):
                _refuse_backwards(topic_partition, start[topic_partition], end[topic_partition])
        ranges = self._ranges(start, end)
        if self._restriction is not None:
            ranges = self._restriction.apply(ranges, self._log.at, self._ends)
        return divide(ranges, self._division)

    def stream_ranges(
        self, start: Mapping[TopicPartition, Offset], end: Mapping[TopicPartition, Offset]
    ) -> list[OffsetRange]:
        """Returns the ranges of a micro-batch between two offsets of the checkpoint. Raises `DataLoss`."""
        recreated, self._recreated = self._recreated, set()
        for topic in sorted(recreated):
            self._loss.report(
                f"The topic {topic} was deleted and created again while the query ran: it has another topic id than "
                "before. The records of the old topic are gone; with failOnDataLoss=false the query reads the new "
                "topic from its start"
            )
        new = end.keys() - start.keys()
        beginnings = self._log.earliest(new) if new else {}
        if deleted := new - beginnings.keys():
            self._loss.report(f"Cannot find earliest offsets of {_listed(deleted)}. Some data may have been missed")
        for topic_partition, offset in sorted(beginnings.items()):
            if offset != 0:
                self._loss.report(
                    f"Added partition {topic_partition} starts from {offset} instead of 0. "
                    "Some data may have been missed"
                )
        if gone := start.keys() - end.keys():
            self._loss.report(f"{_listed(gone)} are gone. Some data may have been missed")
        return divide(self._ranges({**start, **beginnings}, end), self._division)

    def _ranges(
        self, start: Mapping[TopicPartition, Offset], end: Mapping[TopicPartition, Offset]
    ) -> list[OffsetRange]:
        ranges = []
        common = sorted(end.keys() & start.keys())
        # A micro-batch that is repeated after a restart is planned before anything was learned of its topics.
        self._log.know({key.topic for key in common if start[key] < end[key]})
        for topic_partition in common:
            begin, until = start[topic_partition], end[topic_partition]
            if until < begin:
                if self._leaves_out(*topic_partition, begin):
                    continue
                self._loss.report(
                    f"Partition {topic_partition}'s offset was changed from {begin} to {until}. This could be either "
                    "1) a user error that the start offset is set beyond available offset when starting query, or "
                    "2) the kafka topic-partition is deleted and re-created"
                )
            elif begin < until:
                topic_id, epoch = self._log.topic_id(topic_partition.topic), self._log.leader_epoch(topic_partition)
                ranges.append(OffsetRange(topic_partition, begin, until, topic_id, epoch))
        return ranges


def _is_named(topic_partition: TopicPartition, places: Collection[str | TopicPartition]) -> bool:
    """Returns whether `places`, in the form of `LogOffsets.missing`, contains the partition or its topic."""
    return topic_partition in places or topic_partition.topic in places


def _is_given(limit: OffsetLimit, topic_partition: TopicPartition) -> bool:
    """Returns whether a limit is a given offset or a time, and not the start or end of the log."""
    return limit[topic_partition] >= 0 if isinstance(limit, dict) else not isinstance(limit, str)


def _refuse_backwards(topic_partition: TopicPartition, start: Offset, end: Offset) -> None:
    raise OptionError(
        f"The resolved start offset {start} is greater than the resolved end offset {end} "
        f"for topic {topic_partition.topic} partition {topic_partition.partition}. Check whether one of the two is a "
        "timestamp and the other an offset, whether the start is beyond the end of the log, and whether the topic was "
        "deleted and created again."
    )


def _listed(topic_partitions: Collection[TopicPartition]) -> str:
    return "{" + ", ".join(map(str, sorted(topic_partitions))) + "}"


def committed_start(planner: Planner, commits: GroupCommits) -> PartitionOffsets:
    """Returns the start of each subscribed partition with `startingOffsets=committed`.

    It is the group's committed offset, or else the one by `klamm.group.reset`.

    Raises `OptionError` for a partition without a commit if `klamm.group.reset` is `fail`, and what the cluster raises.
    """
    latest = planner.existing()
    committed = commits.start(latest)
    if commits.resets_to_latest:
        return {key: committed.get(key, offset) for key, offset in latest.items()}
    return planner.start_of_new(committed, latest)
