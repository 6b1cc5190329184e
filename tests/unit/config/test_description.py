from __future__ import annotations

from klamm.config.broker_config import BASELINE
from klamm.config.description import (
    ConfigEntry,
    describe_broker,
    describe_client_metrics,
    describe_cluster_default,
    describe_group,
    describe_topic,
)
from klamm.config.layers import BrokerLayers, ConfigSource, Synonym
from klamm.config.table import group_keys

NOTHING_SET = BrokerLayers(BASELINE)


def by_name(entries: list[ConfigEntry]) -> dict[str, ConfigEntry]:
    result = {entry.name: entry for entry in entries}
    assert len(result) == len(entries)
    return result


def test_a_topic_tells_all_keys_but_the_internal_ones() -> None:
    """A topic's description has 33 of its 34 keys; the internal key appears only if it is set."""
    entries = by_name(describe_topic({}, NOTHING_SET))
    assert len(entries) == 33
    assert "internal.segment.bytes" not in entries
    assert "internal.segment.bytes" in by_name(describe_topic({"internal.segment.bytes": "100"}, NOTHING_SET))


def test_a_topics_default_has_the_brokers_key_as_synonym() -> None:
    """The default of a topic key has the broker key as its synonym, with Kafka's value, source, type and
    documentation."""
    entry = by_name(describe_topic({}, NOTHING_SET))["max.message.bytes"]
    assert entry.documentation is not None
    assert entry.documentation.startswith("The largest record batch size allowed by Kafka")
    assert entry._replace(documentation=None) == ConfigEntry(
        "max.message.bytes",
        "1048588",
        ConfigSource.DEFAULT,
        False,
        False,
        [Synonym("message.max.bytes", "1048588", ConfigSource.DEFAULT)],
        3,
        None,
    )


def test_an_override_comes_first() -> None:
    """A topic's override is the first synonym, followed by the broker's values."""
    layers = BrokerLayers({"message.max.bytes": "7"}, {"message.max.bytes": "8"})
    entry = by_name(describe_topic({"max.message.bytes": " 9 "}, layers))["max.message.bytes"]
    assert (entry.value, entry.source) == ("9", ConfigSource.TOPIC)
    assert entry.synonyms == [
        Synonym("max.message.bytes", "9", ConfigSource.TOPIC),
        Synonym("message.max.bytes", "8", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        Synonym("message.max.bytes", "7", ConfigSource.STATIC_BROKER),
        Synonym("message.max.bytes", "1048588", ConfigSource.DEFAULT),
    ]


def test_a_topics_default_is_in_the_topics_unit() -> None:
    """A topic's default uses the topic's unit, and its source stays the default if only a coarser unit is set, as in
    Kafka."""
    entry = by_name(describe_topic({}, BrokerLayers({"log.retention.hours": "1"})))["retention.ms"]
    assert (entry.value, entry.source, entry.synonyms) == ("3600000", ConfigSource.DEFAULT, [])
    entry = by_name(describe_topic({}, BrokerLayers({"log.retention.ms": "-7"})))["retention.ms"]
    assert (entry.value, entry.source) == ("-1", ConfigSource.STATIC_BROKER)


def test_a_broker_tells_all_keys_but_the_internal_ones() -> None:
    """A broker's description has all keys except internal ones, with the current value or None."""
    entries = by_name(describe_broker(NOTHING_SET))
    assert entries["num.partitions"].value == "1"
    assert entries["num.partitions"].is_read_only
    assert not entries["log.segment.bytes"].is_read_only
    assert entries["log.retention.ms"].value is None
    assert entries["log.cleaner.io.max.bytes.per.second"].value == "1.7976931348623157E308"
    assert entries["group.consumer.assignors"].value == "uniform,range,load"
    assert entries["node.id"].source is ConfigSource.STATIC_BROKER
    assert entries["broker.id"].value == "1"
    assert "log.initial.task.delay.ms" not in entries
    assert "leader.replication.throttled.rate" not in entries
    assert "klamm.cluster.id" in entries


def test_a_secret_is_not_told() -> None:
    """Neither the value of a secret nor the values of its synonyms are returned."""
    entry = by_name(describe_broker(BrokerLayers({"ssl.keystore.password": "x"})))["ssl.keystore.password"]
    assert (entry.value, entry.is_sensitive) == (None, True)
    assert entry.synonyms == [Synonym("ssl.keystore.password", None, ConfigSource.STATIC_BROKER)]


def test_what_is_set_and_not_known_is_listed_without_its_value() -> None:
    """An unknown key that is set is listed without its value, which may be a plugin's secret; internal and
    dynamic-only keys are listed if set."""
    layers = BrokerLayers(
        {"my.key": "x", "log.initial.task.delay.ms": "5"}, {}, {"leader.replication.throttled.rate": "7"}
    )
    entries = by_name(describe_broker(layers))
    assert (entries["my.key"].value, entries["my.key"].is_sensitive, entries["my.key"].type_id) == (None, True, 0)
    assert entries["log.initial.task.delay.ms"].value == "5"
    throttled = entries["leader.replication.throttled.rate"]
    assert (throttled.value, throttled.documentation) == ("7", None)
    assert throttled.synonyms == [Synonym(throttled.name, "7", ConfigSource.DYNAMIC_BROKER)]


def test_the_clusters_default_tells_what_was_set_there_only() -> None:
    """The cluster default lists only the settings for all brokers, with that single source."""
    layers = BrokerLayers({"max.connections": "1"}, {"max.connections": "2"}, {"max.connections": "3"})
    (entry,) = describe_cluster_default(layers)
    assert (entry.name, entry.value, entry.source) == ("max.connections", "2", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    assert entry.synonyms == [Synonym("max.connections", "2", ConfigSource.DYNAMIC_DEFAULT_BROKER)]


def test_a_group_takes_its_defaults_from_the_broker() -> None:
    """A group takes its defaults from the broker (KIP-848); a key without a broker key has its own default as
    synonym."""
    layers = BrokerLayers({"group.consumer.session.timeout.ms": "50000"})
    entries = by_name(describe_group({"consumer.heartbeat.interval.ms": "6000"}, layers))
    assert set(entries) == set(group_keys())
    session = entries["consumer.session.timeout.ms"]
    assert (session.value, session.source) == ("50000", ConfigSource.STATIC_BROKER)
    heartbeat = entries["consumer.heartbeat.interval.ms"]
    assert (heartbeat.value, heartbeat.source) == ("6000", ConfigSource.GROUP)
    assert heartbeat.synonyms == [
        Synonym("consumer.heartbeat.interval.ms", "6000", ConfigSource.GROUP),
        Synonym("group.consumer.heartbeat.interval.ms", "5000", ConfigSource.DEFAULT),
    ]
    reset = entries["share.auto.offset.reset"]
    assert reset.synonyms == [Synonym("share.auto.offset.reset", "latest", ConfigSource.DEFAULT)]


def test_a_group_tells_the_weights_of_topics_that_are_set() -> None:
    """A group's description has the topic weights that are set, in addition to the keys of every group."""
    weight = "klamm.consumer.assignor.load.topic.weight.orders"
    entries = by_name(describe_group({weight: "2.5"}, BrokerLayers({})))
    assert set(entries) == {*group_keys(), weight}
    assert (entries[weight].value, entries[weight].source) == ("2.5", ConfigSource.GROUP)
    assert entries["klamm.consumer.assignor.load.min.dwell.ms"].value == "300000"


def test_a_metrics_subscription_tells_its_three_keys() -> None:
    """A metrics subscription has three keys (KIP-714)."""
    entries = by_name(describe_client_metrics({"interval.ms": "1000"}))
    assert (entries["interval.ms"].value, entries["interval.ms"].source) == ("1000", ConfigSource.CLIENT_METRICS)
    assert (entries["metrics"].value, entries["metrics"].source) == ("", ConfigSource.DEFAULT)
    assert sorted(entries) == ["interval.ms", "match", "metrics"]
