"""Reports partitions without a leader, since librdkafka waits for a leader silently."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import Final

from confluent_kafka import Consumer, KafkaException, Producer

from klamm.insight.cluster_access import TIMEOUT_S

__all__ = ["LeaderWatch"]

_FIRST_LOOK_S: Final = 3.0
"""The wait without progress before the first metadata request. Each further wait is twice as long."""


class LeaderWatch:
    """Prints once for each partition without a leader that the command waits for it."""

    def __init__(
        self, command: str, client: Consumer | Producer, topics: Iterable[str], partitions: Iterable[int] | None
    ) -> None:
        self._command = command
        self._client = client
        self._topics = tuple(topics)
        self._partitions = None if partitions is None else tuple(partitions)
        self._said: set[tuple[str, int]] = set()
        self._wait_s = _FIRST_LOOK_S
        self._next_look_s = time.monotonic() + self._wait_s

    def waited(self) -> None:
        """Looks for partitions without a leader, at growing intervals. Called while there is no progress."""
        if time.monotonic() >= self._next_look_s:
            self._look()
            self._wait_s *= 2
            self._next_look_s = time.monotonic() + self._wait_s

    def _look(self) -> None:
        for topic in self._topics:
            for index in _without_leader(self._client, topic, self._partitions):
                if (topic, index) not in self._said:
                    self._said.add((topic, index))
                    print(
                        f"{self._command}: {topic}-{index} has no leader and is waited for; with a single broker it is "
                        "offline, and the broker's log says why",
                        file=sys.stderr,
                        flush=True,
                    )


def _without_leader(client: Consumer | Producer, topic: str, partitions: Iterable[int] | None) -> list[int]:
    """Returns the topic's partitions (only of `partitions`, if given) without a leader. Returns an empty list if no
    broker answers."""
    try:
        known = client.list_topics(timeout=TIMEOUT_S).topics.get(topic)
    except KafkaException:
        return []
    if known is None:
        return []
    asked = known.partitions if partitions is None else known.partitions.keys() & set(partitions)
    return sorted(index for index in asked if known.partitions[index].leader < 0)
