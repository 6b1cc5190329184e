"""Decides when a producer requests metadata, and for which topics, to keep a `ClusterView` up to date.

A topic that gets no records for some time is no longer asked for, as in Java's producer. Otherwise a producer that
wrote to it once would create it again after its deletion, on brokers that create topics when they are asked for.
"""

from __future__ import annotations

from typing import Final

from klamm.client.cluster_view import ClusterView
from klamm.client.producer.backoff import Backoff
from klamm.client.producer.producer_config import ProducerConfig
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.metadata_request import MetadataRequest, MetadataRequestTopic
from klamm.protocol.schema.metadata_response import MetadataResponse
from klamm.protocol.types import Millis

__all__ = ["MetadataRefresh"]

_MAXIMUM_AGE_MS: Final = 300_000
"""Kafka's default of `metadata.max.age.ms`: new partitions are seen after that time."""
_MAXIMUM_IDLE_MS: Final = 300_000
"""Kafka's default of `metadata.max.idle.ms`."""


class MetadataRefresh:
    """The metadata of a producer's topics, refreshed on demand and by age."""

    def __init__(self, config: ProducerConfig, view: ClusterView, backoff: Backoff) -> None:
        self.view = view
        self.refused: dict[str, ErrorCode] = {}
        """The topics that the cluster does not describe, with the reason, except for topics that don't exist."""
        self._may_create = config.allow_auto_create_topics
        self._backoff = backoff
        self._topics: dict[str, Millis | None] = {}
        """When each topic was used last; None before it was first asked for."""
        self._is_stale = False
        self._is_under_way = False
        self._requests = 0
        """How many requests were sent."""
        self.answered_request = 0
        """The number of the newest request that was answered."""
        self._not_before: Millis = Millis(0)
        self._due: float = float("inf")
        self._attempts = 0

    def want(self, topic: str) -> None:
        """Adds a topic, until it is idle for some minutes. Raises `TypeError` or `UnicodeEncodeError` for a name that
        no topic can have."""
        if topic not in self._topics:
            # A name that can't be encoded would stop all later requests.
            if not isinstance(topic, str):
                raise TypeError(f"the name of a topic is a text, not {topic!r}")
            topic.encode()
            self._topics[topic] = None
            self._is_stale = True
            # A new topic does not wait for the pause of the others.
            self._attempts, self._not_before = 0, Millis(0)

    def used(self, topic: str, now: Millis) -> None:
        """Notes that records are sent to the topic."""
        if topic in self._topics:
            self._topics[topic] = now

    def forget(self, topic: str) -> None:
        """Removes a topic that does not exist."""
        self._topics.pop(topic, None)
        self.refused.pop(topic, None)

    def refresh(self) -> int:
        """Requests a refresh, because a broker's answer, or a missing answer, shows that the metadata are out of
        date. Returns the number of the next request: the metadata are newer than this call when `answered_request` has
        reached it."""
        self._is_stale = True
        return self._requests + 1

    def is_old(self, now: Millis) -> bool:
        """Returns whether the metadata have reached their maximum age."""
        return self._due <= now

    def keep(self, now: Millis) -> None:
        """Lets the present metadata count as new: no broker has answered. A refresh is still wanted."""
        self._is_stale = True
        self._due = now + _MAXIMUM_AGE_MS

    def next_request(self, now: Millis) -> MetadataRequest | None:
        """Returns the request to send now, if any; `sent` follows if it is sent."""
        if self._is_under_way or not self._topics or self._not_before > now:
            return None
        if not self._is_stale and self._due > now:
            return None
        self._drop_idle(now)
        if not self._topics:
            return None
        return MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in self._topics],
            allow_auto_topic_creation=self._may_create,
        )

    def _drop_idle(self, now: Millis) -> None:
        for topic, used_at in list(self._topics.items()):
            if used_at is not None and used_at + _MAXIMUM_IDLE_MS <= now:
                self.forget(topic)
                self.view.forget_topic(topic)
        if not self._topics:
            self._is_stale, self._due = False, float("inf")

    def sent(self, now: Millis) -> list[str]:
        """Notes that the request was sent, and returns its topics."""
        self._is_under_way, self._is_stale = True, False
        self._requests += 1
        self._topics = {topic: now if used_at is None else used_at for topic, used_at in self._topics.items()}
        return list(self._topics)

    def answered(self, answer: MetadataResponse, topics: list[str], now: Millis) -> None:
        """Applies the response."""
        self._is_under_way = False
        self.answered_request = self._requests
        self.refused = self.view.apply(answer, topics)
        self._due = now + _MAXIMUM_AGE_MS
        missing = [name for name in self.view.missing(self._topics) if name not in topics or name not in self.refused]
        self._is_stale = self._is_stale or bool(missing)
        # A refresh right after this one shows nothing new.
        self._attempts = self._attempts + 1 if missing else 0
        self._not_before = Millis(now + self._backoff.pause_ms(self._attempts))

    def lost(self, now: Millis) -> None:
        """Asks again after a pause: the request got no answer."""
        self._is_under_way, self._is_stale = False, True
        self._attempts += 1
        self._not_before = Millis(now + self._backoff.pause_ms(self._attempts))

    def next_time(self) -> float:
        """Returns when the next request may be sent; infinity if none is needed."""
        if self._is_under_way or not self._topics:
            return float("inf")
        return self._not_before if self._is_stale else max(self._due, self._not_before)
