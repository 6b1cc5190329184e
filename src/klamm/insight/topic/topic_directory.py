"""The names of topics by id. Records of consumer groups hold only the ids."""

from __future__ import annotations

from confluent_kafka import TopicCollection

from klamm.insight.cluster_access import TIMEOUT_S, ClusterAccess
from klamm.insight.errors import ClusterError
from klamm.insight.group.coordinator_state import unknown_topic
from klamm.insight.plain_message import uuid_text

__all__ = ["TopicDirectory"]


class TopicDirectory:
    """Topic names by id. The first lookup of a name fetches all of them from the cluster."""

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access
        self._names: dict[str, str] | None = None

    def name_of(self, topic_id: bytes) -> str:
        """Returns the topic's name; a text with the id if the topic was deleted or the request failed."""
        if self._names is None:
            self._names = self._ask()
        return self._names.get(uuid_text(topic_id)) or unknown_topic(topic_id)

    def _ask(self) -> dict[str, str]:
        try:
            admin = self._access.admin_client()
            topics = list(self._access.translate(lambda: admin.list_topics(timeout=TIMEOUT_S)).topics)
            described = [
                self._access.result_of(each) for each in admin.describe_topics(TopicCollection(topics)).values()
            ]
        except ClusterError:
            return {}
        # librdkafka writes ids in standard base64, Kafka in URL-safe base64.
        return {str(topic.topic_id).replace("+", "-").replace("/", "_"): topic.name for topic in described}
