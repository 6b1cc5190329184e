"""The topics and partitions to read: the options `assign`, `subscribe` and `subscribePattern`."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from klamm.protocol.types import TopicPartition
from klamm.spark.source.errors import OptionError
from klamm.spark.source.offsets import parse_assignment

__all__ = ["Subscription", "parse_subscription"]

_STRATEGIES: Final = ("subscribe", "subscribepattern", "assign")
_NAMES: Final = "subscribe, subscribepattern, assign"
# A named group is written `(?<name>…)` in Java.
_JAVA_GROUP: Final = re.compile(r"\(\?<(?![=!])")
_ESCAPED: Final = re.compile(r"\\.", re.DOTALL)
# An escaped character, or a set with its content; a closing bracket at the set's beginning is one of its characters.
_ESCAPED_OR_SET: Final = re.compile(r"\\.|\[(\^?\]?(?:\\.|[^\]\\])*)\]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Subscription:
    """Exactly one of: all partitions of some topics, some partitions, or all topics whose name matches a pattern."""

    topics: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()
    pattern: re.Pattern[str] | None = None

    def fits(self, topic: str) -> bool:
        """Returns whether the pattern matches anywhere in a topic's name, as in Spark."""
        return self.pattern is not None and self.pattern.search(topic) is not None


def parse_subscription(given: Mapping[str, str]) -> Subscription:
    """Parses the subscription from a query's options, whose keys are in lower case. Raises `OptionError`."""
    strategies = [key for key in _STRATEGIES if key in given]
    if not strategies:
        raise OptionError(f"One of the following options must be specified for Kafka source: {_NAMES}")
    if len(strategies) > 1:
        raise OptionError(f"Only one of the following options can be specified for Kafka source: {_NAMES}")
    text = given[strategies[0]]
    if strategies[0] == "assign":
        return Subscription(partitions=parse_assignment(text))
    if strategies[0] == "subscribepattern":
        return Subscription(pattern=_parse_pattern(text))
    topics = tuple(dict.fromkeys(filter(None, (topic.strip() for topic in text.split(",")))))
    if not topics:
        raise OptionError(f"No topics to subscribe to as specified value for option 'subscribe' is '{text}'")
    return Subscription(topics=topics)


def _parse_pattern(text: str) -> re.Pattern[str]:
    """Compiles a Java pattern if it has the same meaning in Python. Raises `OptionError` otherwise."""
    pattern = text.strip()
    if not pattern:
        raise OptionError(f"Pattern to subscribe is empty as specified value for option 'subscribePattern' is '{text}'")
    try:
        with warnings.catch_warnings():
            # Python warns of nested sets and && between sets, which other languages interpret differently.
            warnings.simplefilter("error", FutureWarning)
            compiled = re.compile(_JAVA_GROUP.sub("(?P<", pattern), re.ASCII)
        _refuse_set_operations(pattern)
    except (re.error, FutureWarning) as error:
        raise OptionError(
            f"subscribePattern={pattern}: {error}. Patterns are Python's regular expressions, which have no \\Q…\\E, "
            "no \\p{…} and no set operations; write the set of characters out"
        ) from None
    return compiled


def _refuse_set_operations(pattern: str) -> None:
    """Raises `re.error` for nested sets and `&&`, since Python warns of them only in some places."""
    for found in _ESCAPED_OR_SET.finditer(pattern):
        inside = _ESCAPED.sub("  ", found[1] or "")
        for operation, name in (("[", "nested set"), ("&&", "set intersection")):
            if operation in inside:
                raise re.error(f"Possible {name}", pattern, found.start(1) + inside.index(operation))
