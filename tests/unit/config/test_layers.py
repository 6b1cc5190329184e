from __future__ import annotations

from klamm.config.broker_config import BASELINE, BrokerConfig
from klamm.config.layers import BrokerLayers, ConfigSource, Synonym, apply_dynamic
from klamm.config.topic_config import TopicConfig


def test_the_broker_goes_before_the_cluster_before_the_start() -> None:
    """A broker's setting overrides the cluster's, and the cluster's overrides the start's; the default is last
    (KIP-226)."""
    layers = BrokerLayers({"max.connections": "1"}, {"max.connections": "2"}, {"max.connections": "3"})
    assert layers.values()["max.connections"] == 3
    assert layers.synonyms("max.connections") == [
        Synonym("max.connections", "3", ConfigSource.DYNAMIC_BROKER),
        Synonym("max.connections", "2", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        Synonym("max.connections", "1", ConfigSource.STATIC_BROKER),
        Synonym("max.connections", "2147483647", ConfigSource.DEFAULT),
    ]


def test_a_dynamic_setting_hides_the_static_one_in_another_unit() -> None:
    """A dynamic setting hides the static setting in another unit, as Kafka's overrideProps does."""
    layers = BrokerLayers({"log.retention.hours": "5"}, {"log.retention.ms": "1"}, {})
    assert "log.retention.hours" not in layers.merged()
    assert (layers.values()["log.retention.ms"], layers.values()["log.retention.hours"]) == (1, 168)


def test_synonyms_before_the_key_itself_are_left_out() -> None:
    """Only synonyms after the key itself count, so log.retention.ms has none from log.retention.hours, as in Kafka."""
    layers = BrokerLayers({"log.retention.hours": "1"})
    assert layers.synonyms("log.retention.ms") == []
    assert layers.synonyms("log.retention.hours") == [
        Synonym("log.retention.hours", "1", ConfigSource.STATIC_BROKER),
        Synonym("log.retention.hours", "168", ConfigSource.DEFAULT),
    ]


def test_synonyms_of_a_key_follow_it() -> None:
    """Synonyms are ordered from the strongest source to the weakest, and within a source from the finest unit to the
    coarsest."""
    layers = BrokerLayers({"log.retention.hours": "1", "log.retention.ms": "7"})
    assert layers.synonyms("log.retention.ms") == [
        Synonym("log.retention.ms", "7", ConfigSource.STATIC_BROKER),
        Synonym("log.retention.hours", "1", ConfigSource.STATIC_BROKER),
        Synonym("log.retention.hours", "168", ConfigSource.DEFAULT),
    ]


def test_secrets_and_unknown_keys_are_listed_without_a_value() -> None:
    """Unknown keys are listed without a value, because an unknown key may hold a secret."""
    layers = BrokerLayers({"my.plugin.password": "x"})
    assert layers.synonyms("my.plugin.password") == [Synonym("my.plugin.password", None, ConfigSource.STATIC_BROKER)]


def test_node_id_and_broker_id_are_one() -> None:
    """node.id and broker.id have the same value; Kafka fills in one from the other."""
    assert BrokerLayers({"node.id": "3"}).merged()["broker.id"] == "3"
    assert BrokerLayers({"broker.id": "4"}).merged()["node.id"] == "4"


def test_what_is_stored_and_does_not_hold_any_more_is_passed_over() -> None:
    """A stored setting that is no longer valid is ignored, so that a later version can still start."""
    layers = BrokerLayers({}, {"max.connections": "many", "num.partitions": "5"}, {})
    assert layers.merged() == {}


def test_dynamic_settings_change_the_configuration() -> None:
    """Dynamic settings change the topic defaults and the dynamic fields; the explicit start settings stay visible."""
    start = BrokerConfig.load({"log.retention.hours": "5", "max.connections": "9"})
    config = apply_dynamic(start, {"log.retention.ms": "1", "max.connections": "10"}, {"max.connections": "11"})
    assert config.topic_defaults.retention_ms == 1
    assert config.max_connections == 11
    assert config.explicit == start.explicit


def test_taking_dynamic_settings_back_leads_to_the_start() -> None:
    """Removing dynamic settings restores the start configuration, because they are always applied on top of it."""
    start = BrokerConfig.load({"max.connections": "9"})
    assert apply_dynamic(start, {}, {}) == start


def test_dynamic_settings_leave_alone_what_they_do_not_name() -> None:
    """Dynamic settings keep all other values, including those passed to the constructor."""
    start = BrokerConfig(topic_defaults=TopicConfig(segment_bytes=100), max_connections=3)
    config = apply_dynamic(start, {"message.max.bytes": "5000"}, {})
    assert config.topic_defaults == TopicConfig(segment_bytes=100, max_message_bytes=5000)
    assert config.max_connections == 3


def test_listeners_stay_as_they_were_opened() -> None:
    """A dynamic change of the listeners has no effect, because sockets are opened once."""
    dynamic = {"listeners": "PLAINTEXT://:1", "log.flush.interval.ms": "5"}
    config = apply_dynamic(BrokerConfig(), {}, dynamic)
    assert config.listeners == BrokerConfig().listeners
    assert config.topic_defaults.flush_ms == 5


def test_dynamic_settings_that_contradict_each_other_change_no_topic() -> None:
    """Contradicting dynamic settings leave the topic defaults unchanged; setting them together is refused earlier."""
    dynamic = {"log.cleaner.min.compaction.lag.ms": "5", "log.cleaner.max.compaction.lag.ms": "4"}
    assert apply_dynamic(BrokerConfig(), dynamic, {}).topic_defaults == TopicConfig()


def test_the_baseline_is_static() -> None:
    """The baseline is static, as if a Kafka broker had the settings in its file."""
    assert BrokerLayers(BASELINE).synonyms("offsets.topic.replication.factor") == [
        Synonym("offsets.topic.replication.factor", "1", ConfigSource.STATIC_BROKER),
        Synonym("offsets.topic.replication.factor", "3", ConfigSource.DEFAULT),
    ]
