"""Partitions without a leader: librdkafka waits for one without a word, so the commands say it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import Final

from confluent_kafka import Consumer, KafkaException, Producer

from klamm.insight.cluster_access import TIMEOUT_S

__all__ = ["LeaderWatch"]

FIRST_LOOK_S: Final = 3.0
"""So long nothing comes before the cluster is asked; each time after that, twice as long."""


class LeaderWatch:
    """Says once of each partition that has no leader that it is waited for: librdkafka waits without a word."""

    def __init__(
        self, command: str, client: Consumer | Producer, topics: Iterable[str], partitions: Iterable[int] | None
    ) -> None:
        self._command = command
        self._client = client
        self._topics = tuple(topics)
        self._partitions = None if partitions is None else tuple(partitions)
        self._said: set[tuple[str, int]] = set()
        self._wait_s = FIRST_LOOK_S
        self._next_look_s = time.monotonic() + self._wait_s

    def waited(self) -> None:
        """Nothing came for a moment: looks now and then, ever more seldom."""
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
    """Those of the topic's partitions (of `partitions`, if given) that have no leader at the moment; none where nobody
    answers."""
    try:
        known = client.list_topics(timeout=TIMEOUT_S).topics.get(topic)
    except KafkaException:
        return []
    if known is None:
        return []
    asked = known.partitions if partitions is None else known.partitions.keys() & set(partitions)
    return sorted(index for index in asked if known.partitions[index].leader < 0)
