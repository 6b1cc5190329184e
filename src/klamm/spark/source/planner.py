"""Which offsets a read or a micro-batch covers, and what it means when the log no longer has them.

The rules and the texts are those of `KafkaOffsetReaderAdmin` and `KafkaMicroBatchStream` in Spark. The log itself is
behind `LogOffsets`, so that the rules need no broker.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from klamm.protocol.types import Millis, Offset, TopicId, TopicPartition
from klamm.spark.source.errors import LossPolicy, OptionError
from klamm.spark.source.offsets import EARLIEST_OFFSET, LATEST_OFFSET, OffsetRange, PartitionOffsets
from klamm.spark.source.options import OffsetRetries
from klamm.spark.source.positions import AtTimestamp, AtTimestamps, OffsetLimit
from klamm.spark.source.range_division import divide
from klamm.spark.source.read_limits import Division

if TYPE_CHECKING:
    from klamm.spark.source.group_commits import GroupCommits

__all__ = ["LogOffsets", "OffsetRange", "Planner", "Restriction", "committed_start"]

_NOWHERE: Final[Mapping[TopicPartition, Offset]] = MappingProxyType({})
_NONE: Final = Offset(-1)
"""What a timestamp has if there is no record of it or later."""


class Restriction(Protocol):
    """Filters, as `klamm.spark.source.pushed_filters.Restriction` holds them."""

    def leaves_out(self, topic: str, partition: int | None, start: int, /) -> bool:
        """Whether nothing is wanted of a topic, or of that one of its partitions, from an offset on."""

    def apply(
        self,
        ranges: Sequence[OffsetRange],
        offsets_at: Callable[[Mapping[TopicPartition, Millis]], PartitionOffsets],
        /,
    ) -> list[OffsetRange]:
        """What is left of the ranges; `offsets_at` is `LogOffsets.at`."""


class LogOffsets(Protocol):
    """What the planner asks of the cluster about the partitions that are subscribed to."""

    def latest(self) -> PartitionOffsets:
        """The end of each subscribed partition that exists now."""

    def earliest(self, topic_partitions: Collection[TopicPartition]) -> PartitionOffsets:
        """The start of each of these partitions that exists."""

    def at(self, timestamps_ms: Mapping[TopicPartition, Millis]) -> PartitionOffsets:
        """The first offset of each partition whose record is of this time or later; -1 where there is none."""

    def last(self, topic_partitions: Collection[TopicPartition]) -> PartitionOffsets:
        """The end of each of these partitions that exists, records of transactions that are not finished included."""

    def missing(self) -> Collection[str | TopicPartition]:
        """What is subscribed to and does not exist, topics by name, partitions if those are assigned; right after
        `latest`."""

    def topic_id(self, topic: str) -> TopicId | None:
        """The id that the topic had when it was first seen; None if brokers give none."""

    def made_anew(self) -> Collection[str]:
        """The topics that were deleted and made again since they were first seen; each is told of once."""


class Planner:
    """Turns what the options ask for, and what the log has, into ranges of offsets."""

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
        """`restriction` is of batch reads: what it leaves out is not missed."""
        self._log = log
        self._loss = loss
        self._sleep = sleep
        self._division = division
        self._attempts = retries.attempts
        self._seconds_between = retries.interval_ms / 1000
        self._restriction = restriction
        self.without_record: frozenset[TopicPartition] = frozenset()
        """The partitions that had no record of the time that `resolve` was asked about last, or later."""
        self._missing: frozenset[str | TopicPartition] = frozenset()
        """What is known to be missing: it is told of once, if the query goes on without."""
        self._anew: set[str] = set()
        """The topics that were made anew, until a micro-batch has told of it."""

    def resolve(self, option: str, limit: OffsetLimit) -> PartitionOffsets:
        """The offset of every subscribed partition at a limit.

        Raises `OptionError` if the limit names other partitions than those subscribed to, or a time at which a
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
        """`latest` was seen before, so that what has come since can't be skipped."""
        found = self._log.at(timestamps_ms) if timestamps_ms else {}
        self.without_record = frozenset(key for key, offset in found.items() if offset == _NONE)
        if self.without_record and not latest_if_none:
            first = min(self.without_record)
            raise OptionError(
                f"No offset matched from request of topic-partition {first} and timestamp {timestamps_ms[first]}."
            )
        return {key: latest[key] if key in self.without_record else offset for key, offset in found.items()}

    def existing(self) -> PartitionOffsets:
        """The end of each subscribed partition; what does not exist counts as lost."""
        latest = self.settled()
        self._missing = frozenset(self._not_there())
        self._tell_missing(self._missing)
        return latest

    def settled(self) -> PartitionOffsets:
        """The end of each subscribed partition, asked again for a while if something does not exist."""
        # A topic that was created a moment ago may not have reached every broker.
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
        """The end of each subscribed partition, asked again for a while if an end is before where the query stands, or
        there is none.

        It is no earlier than where the query stands if only an open transaction keeps later records back.
        """
        # As Spark: a leader that has just been elected may not know yet how far its log is committed, nor a broker
        # that has just been started which topics there are.
        return self._asked(lambda latest: not any(self._is_behind(key, at, latest) for key, at in start.items()), start)

    def not_before(
        self, start: Mapping[TopicPartition, Offset], latest: Mapping[TopicPartition, Offset]
    ) -> PartitionOffsets:
        """`latest`; what of it is before where the query stands, or is not there, is asked again for a while."""
        behind = [key for key, offset in start.items() if self._is_behind(key, offset, latest)]
        if not behind:
            return dict(latest)
        seen = self.latest_since(start)
        return {**latest, **{key: seen[key] for key in behind if key in seen}}

    def _is_behind(self, key: TopicPartition, offset: Offset, latest: Mapping[TopicPartition, Offset]) -> bool:
        if key in latest:
            return latest[key] < offset
        # What is known to be missing is not waited for again and again.
        return not _is_named(key, self._missing)

    def _asked(
        self, is_plausible: Callable[[PartitionOffsets], bool], start: Mapping[TopicPartition, Offset] = _NOWHERE
    ) -> PartitionOffsets:
        latest = self._latest(start)
        for _ in range(self._attempts - 1):
            if is_plausible(latest):
                break
            self._sleep(self._seconds_between)
            latest = self._latest(start)
        return latest

    def _latest(self, start: Mapping[TopicPartition, Offset]) -> PartitionOffsets:
        latest = self._log.latest()
        if behind := {key for key, end in latest.items() if end < start.get(key, 0)}:
            # Whoever reads only what is committed may stand behind an open transaction that began before; nothing that
            # it has read is gone.
            last = self._log.last(behind)
            latest.update((key, start[key]) for key in behind if last.get(key, _NONE) >= start[key])
        return latest

    def require(self, start: Mapping[TopicPartition, Offset], end: PartitionOffsets) -> PartitionOffsets:
        """`end`, if everything is there; what is not counts as lost, and what was asked for by its name stays where the
        query stands until it comes back. Before Spark writes the end down: a query can go on from where it was.

        Raises `DataLoss`.
        """
        known, self._missing = self._missing, frozenset(self._not_there())
        gone = start.keys() - end.keys()
        held = {key for key in gone if _is_named(key, self._missing)}
        if lost := {key for key in gone if not _is_named(key, known & self._missing)}:
            self._loss.report(f"{_listed(lost)} are gone. Some data may have been missed")
        self._tell_missing(self._missing - known - held - {key.topic for key in held})
        return {**end, **{key: start[key] for key in held}}

    def _tell_missing(self, places: Collection[str | TopicPartition]) -> None:
        if places:
            self._loss.report_missing(", ".join(sorted(map(str, places))))

    def back_to_start(self, start: Mapping[TopicPartition, Offset], end: PartitionOffsets) -> PartitionOffsets:
        """`end`, with topics that were made anew at their start.

        So the checkpoint remembers what only this process can find out: an end before the start is a loss whenever the
        micro-batch is planned, also after a restart; and a query that goes on reads the new topic from its start.
        """
        self._anew.update(self._log.made_anew())
        if not self._anew:
            return end
        anew = {key for key in start.keys() & end.keys() if key.topic in self._anew}
        return {**end, **{key: first for key, first in self._log.earliest(anew).items() if first < start[key]}}

    def start_of_new(
        self, start: Mapping[TopicPartition, Offset], latest: Mapping[TopicPartition, Offset]
    ) -> PartitionOffsets:
        """`start`, and the beginning of each partition that `latest` has beyond it."""
        new = latest.keys() - start.keys()
        return {**start, **(self._log.earliest(new) if new else {})}

    def batch_ranges(self, starting: OffsetLimit, ending: OffsetLimit) -> list[OffsetRange]:
        """The ranges of a batch read, or what filters leave of them.

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
            ranges = self._restriction.apply(ranges, self._log.at)
        return divide(ranges, self._division)

    def stream_ranges(
        self, start: Mapping[TopicPartition, Offset], end: Mapping[TopicPartition, Offset]
    ) -> list[OffsetRange]:
        """The ranges of a micro-batch between two offsets of the checkpoint. Raises `DataLoss`."""
        anew, self._anew = self._anew, set()
        for topic in sorted(anew):
            self._loss.report(
                f"The topic {topic} was deleted and made anew while the query ran: it has another topic id than "
                "before. What the old one had is gone; without failing, the query would read the new one from its start"
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
        for topic_partition in sorted(end.keys() & start.keys()):
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
                ranges.append(OffsetRange(topic_partition, begin, until, self._log.topic_id(topic_partition.topic)))
        return ranges


def _is_named(topic_partition: TopicPartition, places: Collection[str | TopicPartition]) -> bool:
    """Whether the partition, or its topic, is among what `LogOffsets.missing` names."""
    return topic_partition in places or topic_partition.topic in places


def _is_given(limit: OffsetLimit, topic_partition: TopicPartition) -> bool:
    """Whether a limit is a number of the user's, or a time, and not an end of the log."""
    return limit[topic_partition] >= 0 if isinstance(limit, dict) else not isinstance(limit, str)


def _refuse_backwards(topic_partition: TopicPartition, start: Offset, end: Offset) -> None:
    raise OptionError(
        f"The resolved start offset {start} is greater than the resolved end offset {end} "
        f"for topic {topic_partition.topic} partition {topic_partition.partition}. Check whether one of the two is a "
        "timestamp and the other an offset, whether the start is beyond the end of the log, and whether the topic was "
        "deleted and made anew."
    )


def _listed(topic_partitions: Collection[TopicPartition]) -> str:
    return "{" + ", ".join(map(str, sorted(topic_partitions))) + "}"


def committed_start(planner: Planner, commits: GroupCommits) -> PartitionOffsets:
    """Returns where a read starts with `startingOffsets=committed`, for each subscribed partition.

    That is the offset that the group committed, or else the one that `klamm.group.reset` says.

    Raises `OptionError` for a partition without a commit if that is to fail, and what the cluster raises.
    """
    latest = planner.existing()
    committed = commits.start(latest)
    if commits.resets_to_latest:
        return {key: committed.get(key, offset) for key, offset in latest.items()}
    return planner.start_of_new(committed, latest)
