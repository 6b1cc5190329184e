"""Subscriptions by regular expression: checked at once, resolved in a background task, refreshed together (KIP-848).

The syntax is RE2's: matching takes time linear in the topic's name, whatever a client sends. Expressions that take long
to compile are refused (`regex_cost.py`). All regular expressions of a group are resolved together, so that a new topic
costs one rebalance. After Apache Kafka's `GroupMetadataManager.maybeUpdateRegularExpressions`,
`handleRegularExpressionsResult` and `TopicRegexResolver`.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import Any, Final

from klamm.core.coordinator.cluster_topics import ClusterTopics
from klamm.core.group.consumer.changed_subscriptions import after_resolution
from klamm.core.group.consumer.consumer_group import ConsumerGroup
from klamm.core.group.consumer.consumer_group_records import ResolvedRegex, regex_record, regex_tombstone
from klamm.core.group.consumer.consumer_groups import CauseDetails, ConsumerGroups, Decision
from klamm.core.group.consumer.group_epoch import raise_epoch
from klamm.core.group.consumer.member import ConsumerGroupMember
from klamm.core.group.consumer.regex_cost import MAX_REGEX_COST, regex_cost
from klamm.core.group.consumer.target_assignment import arm_target_timer
from klamm.core.group.events import Cause, Remark
from klamm.core.group.follow_ups import after_append
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import Millis

__all__ = ["RegexChange", "ResolveRegexes", "is_refresh_due", "on_regexes_resolved", "update_regexes"]

_MIN_REFRESH_MS: Final = 10_000
"""Minimum time between two resolutions in a group (Kafka: REGEX_BATCH_REFRESH_MIN_INTERVAL_MS)."""

_MAX_MEMORY_BYTES: Final = 2 * 1024 * 1024
"""Memory limit of one compiled expression; about a hundred are cached."""

_SHOWN: Final = 10_000
# RE2's error messages, with the wording of com.google.re2j for each.
_RE2J_WORDS: Final = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "trailing \\": "trailing backslash at end of expression",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}


class RegexChange(Enum):
    """The effect of a request on the regular expression of its member."""

    NONE = "unchanged"
    UNRESOLVED = "changed and not resolved yet"
    RESOLVED = "changed and already resolved"


@dataclass(frozen=True, slots=True, repr=False)
class ResolveRegexes:
    """The background task that finds the topics of all regular expressions of a group."""

    owner_id: str
    regexes: frozenset[str]
    topics: ClusterTopics
    now: Millis

    def run(self) -> dict[str, ResolvedRegex]:
        """Returns the topics that match, by regular expression."""
        names = list(self.topics.names())
        found = {}
        for regex in sorted(self.regexes):
            matches = _compile(regex).fullmatch
            topics = frozenset(name for name in names if matches(name))
            found[regex] = ResolvedRegex(topics, self.topics.version, self.now)
        return found


def update_regexes(
    decision: Decision, group: ConsumerGroup, old: ConsumerGroupMember, new: ConsumerGroupMember
) -> RegexChange:
    """Handles a change of the member's regular expression, and starts to resolve those of the group if that is due.

    Raises INVALID_REGULAR_EXPRESSION.
    """
    old_regex, new_regex = old.subscribed_topic_regex, new.subscribed_topic_regex
    change = RegexChange.NONE
    if old_regex != new_regex:
        change = RegexChange.UNRESOLVED
        if old_regex and group.regex_counts.get(old_regex) == 1:
            decision.result.records.append(regex_tombstone(group.group_id, old_regex))
        if not new_regex or (new_regex in group.regex_counts and new_regex in group.regexes):
            change = RegexChange.RESOLVED
        elif new_regex not in group.regex_counts:
            _check(new_regex)
    groups, result, now = decision
    regexes = _regexes_after(group, old_regex, new_regex)
    if is_refresh_due(groups, group, regexes, now):
        result.tasks.append(ResolveRegexes(group.group_id, frozenset(regexes), groups.topics, now))
        after_append(result, lambda: groups.resolving.add(group.group_id))
    return change


def on_regexes_resolved(
    decision: Decision, task: ResolveRegexes, outcome: Mapping[str, ResolvedRegex] | BaseException
) -> None:
    """Writes the topics of the regular expressions; raises the group epoch if the group's topics have changed."""
    groups, result, _ = decision
    group_id = task.owner_id
    groups.resolving.discard(group_id)
    group = groups.get(group_id)
    if isinstance(outcome, BaseException):
        result.events.append(Remark(group_id, f"Couldn't update regular expression due to: {outcome!r}"))
        return
    if group is None:
        return
    resolved = {regex: found for regex, found in outcome.items() if regex in group.regex_counts}
    result.records += [regex_record(group_id, regex, found) for regex, found in resolved.items()]
    changes = [
        _describe(regex, group.regexes.get(regex), found.topics)
        for regex, found in resolved.items()
        if group.regex_topics(regex) != found.topics
    ]
    subscriptions = after_resolution(group, resolved)
    if not changes and subscriptions.metadata_hash(groups.topics) != group.metadata_hash:
        changes = list(groups.causes(group_id))
    if changes:
        raise_epoch(decision, group, subscriptions, changes, member_id=None, member_ids=group.members)
        arm_target_timer(decision, group)


def _describe(regex: str, before: ResolvedRegex | None, topics: frozenset[str]) -> CauseDetails:
    known = frozenset() if before is None else before.topics
    news = [f"also {name}" for name in sorted(topics - known)] + [f"no more {name}" for name in sorted(known - topics)]
    shown = ", ".join(news[:5]) + (f" and {len(news) - 5} more changes" if len(news) > 5 else "")
    if before is None:
        cause = Cause.SUBSCRIPTION_CHANGED
    else:
        cause = Cause.TOPIC_CREATED if topics - known else Cause.TOPIC_DELETED
    return CauseDetails(cause, f"regular expression {regex} stands for {shown}")


def _regexes_after(group: ConsumerGroup, old_regex: str, new_regex: str) -> Set[str]:
    if old_regex == new_regex:
        return group.regex_counts.keys()
    regexes = set(group.regex_counts)
    if group.regex_counts.get(old_regex) == 1:
        regexes.discard(old_regex)
    if new_regex:
        regexes.add(new_regex)
    return regexes


def is_refresh_due(groups: ConsumerGroups, group: ConsumerGroup, regexes: Set[str], now: Millis) -> bool:
    """Returns whether `regexes`, those of the group from now on, should be resolved."""
    if group.group_id in groups.resolving or not regexes:
        return False
    # They are always resolved together, so any of them has the time of that.
    latest = next(iter(group.regexes.values()), None)
    if latest is None:
        return True
    # If the wall clock was set back since then, the elapsed time is unknown.
    if 0 <= now - latest.resolved_at_ms <= _MIN_REFRESH_MS:
        return False
    return (
        regexes != group.regexes.keys()
        or latest.version < groups.new_topics_version
        or now > latest.resolved_at_ms + groups.config.consumer_regex_refresh_interval_ms
    )


def _check(regex: str) -> None:
    if regex_cost(regex) > MAX_REGEX_COST:
        raise _invalid(regex, "expression too large")
    try:
        _compile(regex)
    except _library().error as error:
        raise _invalid(regex, _words(error)) from None


def _invalid(regex: str, words: str) -> KafkaError:
    shown = regex if len(regex) <= _SHOWN else f"{regex[:_SHOWN]}..."  # The response has room for 32 kB.
    return KafkaError(
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        f"SubscribedTopicRegex `{shown}` is not a valid regular expression: {words}.",
    )


def _words(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
    what, _, _ = text.partition(":")
    return _RE2J_WORDS.get(what, what)


def _compile(regex: str) -> Any:
    re2 = _library()
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY_BYTES
    return re2.compile(regex, options)


def _library() -> Any:
    # Imported late: few groups use regular expressions, and the library is slow to load.
    return import_module("re2")
