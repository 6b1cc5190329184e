"""Creates the topics that a flow writes, if they do not exist."""

from __future__ import annotations

from contextlib import closing

from klamm.client.cluster import Cluster
from klamm.client.topic_creation import create_missing_topic
from klamm.pipelines.run.place import Place
from klamm.spark.source.options.kafka_options import parse_kafka_options

__all__ = ["create_topic_for", "topic_exists"]


def create_topic_for(place: Place, topic: str) -> None:
    """Creates the topic with the broker's defaults unless it exists. Raises what the cluster raises."""
    with closing(_cluster(place)) as cluster:
        create_missing_topic(cluster, topic)


def topic_exists(place: Place, topic: str) -> bool:
    """Returns whether the topic exists. Raises what the cluster raises."""
    with closing(_cluster(place)) as cluster:
        cluster.refresh([topic])
        return cluster.topic(topic) is not None


def _cluster(place: Place) -> Cluster:
    return Cluster(parse_kafka_options({key.lower(): value for key, value in place.kafka_options.items()})[0])
