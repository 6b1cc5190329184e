"""Tests that a missing topic is created with the broker's defaults, and an existing one is left alone."""

from __future__ import annotations

from contextlib import closing

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from klamm.client.cluster import Cluster
from klamm.client.config import ClientConfig
from klamm.client.errors import RequestRefused
from klamm.client.topic_creation import create_missing_topic
from klamm.protocol.errors import ErrorCode
from klamm.testing import Broker


def test_only_a_missing_topic_is_created() -> None:
    """A missing topic gets the broker's number of partitions; an existing topic keeps its own; an invalid name is
    refused."""
    with Broker(config={"num.partitions": "4"}) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic("old", 2, 1)])["old"].result(30)
        config = ClientConfig.from_mapping({"bootstrap.servers": broker.bootstrap_servers})
        with closing(Cluster(config)) as cluster:
            assert create_missing_topic(cluster, "new")
            assert not create_missing_topic(cluster, "new")
            assert not create_missing_topic(cluster, "old")
            with pytest.raises(RequestRefused) as refused:
                create_missing_topic(cluster, "not a topic")

        assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
        topics = admin.list_topics(timeout=10).topics
        assert (len(topics["new"].partitions), len(topics["old"].partitions)) == (4, 2)
