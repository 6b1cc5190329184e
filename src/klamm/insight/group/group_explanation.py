"""Explains a group in words: which member owns which partitions and why, which member waits for which other member,
which members are idle.

Pure: all information comes in the argument `Evidence`. The explanation leaves out what the evidence lacks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final

from klamm.core.group.history.history_record import HistoryRecord
from klamm.core.group.partition_limits import GroupLimit
from klamm.insight.group.group_limits import limit_lines
from klamm.insight.group.group_picture import GroupPicture, MemberPicture
from klamm.insight.group.group_waits import group_wait, wait_words, waits
from klamm.insight.group.member_names import MemberNames
from klamm.insight.group.member_troubles import JOINED, lasting_name, troubles
from klamm.insight.group.partition_shares import share_lines, subscribed_topics
from klamm.insight.group.replayed_group import ReplayedGroup
from klamm.insight.words import PartitionKey, count, enumeration, lag_words, partition_names, span

__all__ = ["Evidence", "Explanation", "MemberExplanation", "explain"]

_MOST_CAUSES: Final = 2
_UNSETTLED: Final = ("preparing-rebalance", "completing-rebalance", "assigning", "reconciling")
_UNREST_MS: Final = 600_000
_UNREST_CHANGES: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All information about a group at one moment."""

    picture: GroupPicture
    now_ms: int
    partition_counts: Mapping[str, int] = field(default_factory=dict)
    """How many partitions each topic of the cluster has."""
    lags: Mapping[PartitionKey, int | None] = field(default_factory=dict)
    unavailable: Set[PartitionKey] = frozenset()
    """The partitions with a commit and without a lag, because their ends can't be read."""
    history: Sequence[HistoryRecord] = ()
    """The group's changes, oldest first."""
    replayed: ReplayedGroup | None = None
    """The group's state in the newest records of the coordinator's log."""
    members_needed: int | None = None
    limits: Sequence[GroupLimit] | None = None
    """What limits the group, worst first; None if it was not measured now."""

    @property
    def changes(self) -> list[HistoryRecord]:
        """The history without the records on limits."""
        return [record for record in self.history if record.is_change]


@dataclass(frozen=True, slots=True)
class MemberExplanation:
    """Sentences about one member."""

    member_id: str
    name: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Sentences about a group and its members."""

    lines: tuple[str, ...]
    members: tuple[MemberExplanation, ...]


def explain(evidence: Evidence, names: MemberNames | None = None) -> Explanation:
    """Explains the group's state. `names` may already contain former members."""
    names = names if names is not None else MemberNames()
    for record in evidence.history:
        for member in record.members.values():
            names.add(member.member_id, member.instance_id, member.client_id)
    evidence.picture.name_members(names)
    explainer = _Explainer(evidence, names)
    members = tuple(
        MemberExplanation(member.member_id, names.of(member.member_id), tuple(explainer.member(member)))
        for member in evidence.picture.members
    )
    return Explanation(tuple(explainer.group()), members)


class _Explainer:
    """Writes the sentences about one group."""

    def __init__(self, evidence: Evidence, names: MemberNames) -> None:
        self.evidence = evidence
        self.picture = evidence.picture
        self.names = names
        self.waits = waits(self.picture, evidence.replayed)
        self.troubles = troubles(self.picture, evidence.history, evidence.now_ms)
        self.held_back = {
            member.member_id
            for member in self.picture.members
            if member.member_id in self.troubles and not member.assigned and not member.target
        }

    def group(self) -> Iterator[str]:
        """Yields the sentences about the group as a whole."""
        yield self._headline()
        yield from share_lines(self.picture, self.evidence.partition_counts, _patterns(self.evidence))
        yield from self._missing_topics()
        yield from self._last_change()
        yield from self._unrest()
        yield from group_wait(self.picture, self.evidence.replayed, self.names)
        for wait in self.waits:
            yield f"{self.names.of(wait.member_id)} waits for {wait_words(wait, self.names, self.evidence.now_ms)}"
        yield from self._standbys()
        yield from self._ownerless()
        yield from self._load()
        yield from limit_lines(self.evidence.limits, self.evidence.history, self.evidence.now_ms, self.names)

    def member(self, member: MemberPicture) -> Iterator[str]:
        """Yields the sentences about one member."""
        yield from self._has(member)
        yield from self._provenance(member)
        for wait in self.waits:
            if wait.member_id == member.member_id:
                yield f"waits for {wait_words(wait, self.names, self.evidence.now_ms)}"
        yield from self._gives_back(member)
        yield from self._oddities(member)
        yield from self._lag(member)

    def _headline(self) -> str:
        picture = self.picture
        parts = [f"{picture.kind} protocol", picture.state]
        if picture.epoch is not None:
            parts.append(f"epoch {picture.epoch}")
        elif self.evidence.replayed is not None and self.evidence.replayed.epoch is not None:
            parts.append(f"generation {self.evidence.replayed.epoch}")
        parts.append(count(len(picture.members), "member"))
        if picture.partitions:
            parts.append(count(len(picture.partitions), "partition"))
        return ", ".join(parts)

    def _last_change(self) -> Iterator[str]:
        """Yields the causes of the change in progress, or else of the last change."""
        picture = self.picture
        if picture.changing_since_ms is not None:
            ago = span(self.evidence.now_ms - picture.changing_since_ms)
            causes = list(dict.fromkeys(map(self.names.in_text, picture.change_causes)))
            yield f"changing since {ago}, because {enumeration(causes, most=_MOST_CAUSES + 1)}"
        elif self.evidence.changes and picture.state not in _UNSETTLED:
            record = self.evidence.changes[-1]
            ago = span(self.evidence.now_ms - record.finished_ms)
            yield f"last change: {_epoch(record)}, {ago} ago, because {self._causes(record)}"

    def _missing_topics(self) -> Iterator[str]:
        counts = self.evidence.partition_counts
        missing = sorted(subscribed_topics(self.picture, _patterns(self.evidence)) - counts.keys()) if counts else []
        if missing:
            what = "which does not exist" if len(missing) == 1 else "which do not exist"
            yield f"members subscribe to {enumeration(missing, most=6)}, {what}"

    def _unrest(self) -> Iterator[str]:
        """Yields how often the group changed recently and which member caused most changes.

        Changes that were only caused by joining members do not count.
        """
        since_ms = self.evidence.now_ms - _UNREST_MS
        recent = [
            record
            for record in self.evidence.changes
            if record.finished_ms >= since_ms and any(cause.code != JOINED for cause in record.causes)
        ]
        if len(recent) < _UNREST_CHANGES:
            return
        culprits = Counter(name for record in recent for name in _culprits(record))
        worst = culprits.most_common(1)
        who = f"; {worst[0][0]} has caused {worst[0][1]} of them" if worst and worst[0][1] > 1 else ""
        yield f"{len(recent)} disturbances in the last {span(_UNREST_MS)}: the group does not come to rest{who}"

    def _standbys(self) -> Iterator[str]:
        """Yields the idle members if there are more members than partitions, without those that are held back."""
        idle = [each for each in self.picture.standbys if each.member_id not in self.held_back]
        if not idle or not self.picture.partitions:
            return
        members, partitions = len(self.picture.members), len(self.picture.partitions)
        if members - len(self.held_back) > partitions:
            stays = "one stays" if len(idle) == 1 else f"{len(idle)} stay"
            who = enumeration(self.names.all_of(each.member_id for each in idle), most=4)
            yield (
                f"{count(members, 'member')}, {count(partitions, 'partition')}: {stays} idle ({who}) "
                "and takes over when another one goes"
            ).replace("and takes", "and take" if len(idle) > 1 else "and takes")

    def _ownerless(self) -> Iterator[str]:
        """Yields the partitions of subscribed topics that are neither assigned nor in the target."""
        if self.picture.state not in ("stable", "reconciling") or not self.picture.members:
            return
        topics = subscribed_topics(self.picture, _patterns(self.evidence))
        every = {(topic, index) for topic in topics for index in range(self.evidence.partition_counts.get(topic, 0))}
        missing = every - self.picture.partitions
        if missing:
            reason = (
                "the coordinator will see them soon"
                if self.picture.kind == "consumer"
                else "the leader has not seen them yet, or did not assign them; it looks for new partitions "
                "when it refreshes its metadata (metadata.max.age.ms, topic.metadata.refresh.interval.ms)"
            )
            yield f"no member owns {partition_names(missing)}: {reason}"

    def _load(self) -> Iterator[str]:
        known = {key: lag for key, lag in self.evidence.lags.items() if lag is not None}
        if known:
            worst = max(known, key=lambda key: known[key])
            total = sum(known.values())
            most = f", most of it in {worst[0]}-{worst[1]} ({known[worst]:,})" if total and len(known) > 1 else ""
            yield f"{lag_words(self.evidence.lags.values(), len(self.evidence.unavailable))}{most}"
        if uncommitted := self.evidence.lags.keys() - known.keys() - self.evidence.unavailable:
            yield f"nothing is committed yet for {partition_names(uncommitted)}, so there is no lag to tell"
        yield from self._unavailable()
        if self.evidence.members_needed is not None:
            has = len(self.picture.members)
            needed = self.evidence.members_needed
            verdict = (
                "as many as there are"
                if needed == has
                else f"{'more' if needed > has else 'less'} than the {has} there are"
            )
            yield f"{count(needed, 'member')} needed for the lag that is wanted, {verdict}"

    def _unavailable(self) -> Iterator[str]:
        """Yields the partitions that have a commit and no lag."""
        counts = self.evidence.partition_counts
        gone = {key for key in self.evidence.unavailable if counts and key[1] >= counts.get(key[0], 0)}
        if gone:
            yield f"the group has commits for {partition_names(gone)}, which no longer exist"
        if unread := self.evidence.unavailable - gone:
            names = partition_names(unread)
            yield f"the end of {names} can't be read now, for example without a leader, so there is no lag to tell"

    def _has(self, member: MemberPicture) -> Iterator[str]:
        if not member.assigned:
            yield "has nothing"
            return
        total = len(self.picture.partitions)
        kept = member.assigned & member.target
        yield f"has {partition_names(member.assigned)}: {len(member.assigned)} of {count(total, 'partition')}"
        if kept != member.assigned and kept:
            yield f"keeps {partition_names(kept)}"

    def _provenance(self, member: MemberPicture) -> Iterator[str]:
        """Yields since when and why the member owns its partitions, in one line for each change that moved some."""
        if not self.evidence.history:
            yield from self._told(member)
            return
        came: dict[int, set[PartitionKey]] = {}
        longer: set[PartitionKey] = set()
        for key in member.assigned:
            index = _came_with(self.evidence.history, member, key)
            if index is None:
                longer.add(key)
            else:
                came.setdefault(index, set()).add(key)
        for index, keys in sorted(came.items(), reverse=True):
            record = self.evidence.history[index]
            ago = span(self.evidence.now_ms - record.finished_ms)
            yield (
                f"{partition_names(keys)}: since {_epoch(record)}, {ago} ago, {self._from(record, keys)}, "
                f"because {self._causes(record)}"
            )
        before = [record for record in self.evidence.history if member.member_id in record.members]
        if longer and before:
            yield f"{partition_names(longer)}: longer than the history goes back ({_epoch(before[0])})"

    def _told(self, member: MemberPicture) -> Iterator[str]:
        """Yields since when the member has its assignment, from the coordinator's log; for a group without history."""
        replayed = self.evidence.replayed
        known = replayed.members.get(member.member_id) if replayed is not None else None
        if replayed is None or known is None or known.changed_ms is None or not member.assigned or member.surplus:
            return
        epoch = f"epoch {known.epoch}" if known.epoch is not None else f"generation {replayed.epoch}"
        yield f"was told of them {span(self.evidence.now_ms - known.changed_ms)} ago, for {epoch}"

    def _from(self, record: HistoryRecord, keys: set[PartitionKey]) -> str:
        sources: dict[str | None, set[PartitionKey]] = {}
        for move in record.moved:
            if (move.topic, move.partition) in keys:
                sources.setdefault(move.from_member, set()).add((move.topic, move.partition))
        if set(sources) <= {None}:
            return "without an owner before"
        named = {self.names.of(source): owned for source, owned in sources.items() if source is not None}
        if len(named) == 1 and None not in sources:
            return f"from {next(iter(named))}"
        return "from " + enumeration(
            [f"{name} ({partition_names(owned)})" for name, owned in sorted(named.items())], most=4
        )

    def _gives_back(self, member: MemberPicture) -> Iterator[str]:
        if not member.surplus:
            return
        takers = {each.member_id: each.target & member.surplus for each in self.picture.members}
        waiting = [
            f"{self.names.of(taker)} waits for {partition_names(keys)}"
            for taker, keys in sorted(takers.items())
            if keys
        ]
        who = f"; {enumeration(waiting, most=4)}" if waiting else ""
        yield f"has to give back {partition_names(member.surplus)}{who}"

    def _oddities(self, member: MemberPicture) -> Iterator[str]:
        trouble = self.troubles.get(member.member_id)
        if trouble is not None:
            is_held_back = member.member_id in self.held_back
            yield f"{'is held back' if is_held_back else 'is in a crash loop'}: {self.names.in_text(trouble)}"
        if (
            member.member_id not in self.held_back
            and not member.assigned
            and not member.target
            and self.picture.partitions
        ):
            yield self._why_idle(member)
        group_epoch = self.picture.assignment_epoch
        if member.epoch is not None and group_epoch is not None and member.epoch < group_epoch:
            yield f"is still at epoch {member.epoch}; the target is of epoch {group_epoch}"
        if member.uses_classic_protocol and self.picture.kind == "consumer":
            yield "speaks the classic protocol: it has to join again for every change"

    def _why_idle(self, member: MemberPicture) -> str:
        topics = subscribed_topics(self.picture, _patterns(self.evidence), only=member)
        if member.topics is not None and not topics:
            return "subscribes to nothing that exists"
        owned = {topic for topic, _ in self.picture.partitions}
        if topics and not topics & owned:
            return f"subscribes to {enumeration(sorted(topics))} only, of which there is nothing to share out"
        if member in self.picture.standbys:
            return "stands by: all partitions are with others, and it takes over when one of them goes"
        return "is joining: it gets its share when the rebalance ends"

    def _lag(self, member: MemberPicture) -> Iterator[str]:
        known = {key: lag for key in member.assigned if (lag := self.evidence.lags.get(key)) is not None}
        lags = [self.evidence.lags[key] for key in member.assigned & self.evidence.lags.keys()]
        if lags and (sum(known.values()) or len(known) < len(lags)):
            worst = max(known, key=lambda key: known[key], default=None)
            most = f", most of it in {worst[0]}-{worst[1]}" if worst is not None and len(lags) > 1 else ""
            yield f"{lag_words(lags, len(member.assigned & self.evidence.unavailable))}{most}"

    def _causes(self, record: HistoryRecord) -> str:
        texts = [self.names.in_text(each.text) or each.code.replace("_", " ") for each in record.causes]
        return enumeration(list(dict.fromkeys(texts)), most=_MOST_CAUSES + 1) or "of a cause that is not on record"


def _culprits(record: HistoryRecord) -> set[str]:
    """Returns the lasting names of the members that caused a change."""
    members = [record.members.get(cause.member_id or "") for cause in record.causes]
    return {lasting_name(each.instance_id, each.client_id, each.host) for each in members if each is not None}


def _patterns(evidence: Evidence) -> Mapping[str, Sequence[str]]:
    return evidence.replayed.patterns if evidence.replayed is not None else {}


def _came_with(history: Sequence[HistoryRecord], member: MemberPicture, key: PartitionKey) -> int | None:
    """Returns the index of the change that gave the partition to the member; None if it is older than the history."""
    for index in range(len(history) - 1, -1, -1):
        for move in history[index].moved:
            if (move.topic, move.partition) == key:
                return index if _is_same(history[index], move.to_member, member) else None
    return None


def _is_same(record: HistoryRecord, member_id: str | None, member: MemberPicture) -> bool:
    """Returns whether a former member is the current one. A static member comes back with another member id."""
    then = record.members.get(member_id or "")
    if member_id == member.member_id:
        return True
    return then is not None and then.instance_id is not None and then.instance_id == member.instance_id


def _epoch(record: HistoryRecord) -> str:
    return f"{'epoch' if record.group_type == 'consumer' else 'generation'} {record.epoch}"
