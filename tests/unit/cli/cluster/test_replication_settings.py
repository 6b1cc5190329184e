"""Tests the settings of the brokers of a cluster on one machine."""

from __future__ import annotations

import pytest

from klamm.cli.cluster.replication_settings import cluster_settings, default_replication_factor
from klamm.config.table import broker_keys

FACTORS = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
)
IN_SYNC = ("min.insync.replicas", "transaction.state.log.min.isr", "share.coordinator.state.topic.min.isr")


@pytest.mark.parametrize(("brokers", "replicas", "in_sync"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (5, 3, 2)])
def test_topics_have_three_replicas_if_there_are_brokers_for_them(brokers: int, replicas: int, in_sync: int) -> None:
    """All topics, internal ones too, have three replicas, of which two must be in sync, as Kafka recommends. With fewer
    brokers there is a replica on each, and one is enough, so that a broker that is away stops no producer."""
    settings = cluster_settings(brokers)
    assert default_replication_factor(brokers) == replicas
    assert {settings[key] for key in FACTORS} == {str(replicas)}
    assert {settings[key] for key in IN_SYNC} == {str(in_sync)}


def test_a_chosen_replication_factor_is_that_of_all_topics() -> None:
    """The minimum of in-sync replicas follows from the chosen factor: with one replica, it can't be two."""
    settings = cluster_settings(3, 1)
    assert {settings[key] for key in (*FACTORS, *IN_SYNC)} == {"1"}


def test_the_settings_are_keys_of_kafka() -> None:
    """A broker ignores keys that it does not know, so a misspelled one would have no effect."""
    assert cluster_settings(3).keys() <= set(broker_keys())
