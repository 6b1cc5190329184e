from __future__ import annotations

import ast
import json
from dataclasses import fields
from pathlib import Path

import pytest

import klamm
from klamm.config import key_support
from klamm.config.broker_config import BASELINE, BrokerConfig
from klamm.config.key_support import KEY_SUPPORT, KeySupport
from klamm.config.table import (
    ConfigKey,
    broker_keys,
    broker_synonyms,
    client_metrics_keys,
    group_keys,
    group_synonyms,
    kafka_version,
    topic_keys,
    topic_synonyms,
)
from klamm.config.topic_config import TopicConfig

SOURCE = Path(klamm.__file__).parent

# Keys that are honoured during loading: they have no field of their own.
READ_WHILE_LOADING = {
    "broker.id",
    "controller.listener.names",
    "listener.security.protocol.map",
    "log.dir",
    "process.roles",
    "security.inter.broker.protocol",
}

# Read from the metadata, because they can only be set while the broker runs.
READ_FROM_METADATA = {"cordoned.log.dirs"}


def all_keys() -> list[ConfigKey]:
    return [key for keys in (broker_keys(), topic_keys(), group_keys(), client_metrics_keys()) for key in keys.values()]


def test_each_of_kafkas_keys_has_exactly_one_level_of_support() -> None:
    """Each of Kafka's keys has exactly one level of support, and no other key exists except klamm's own."""
    data = json.loads((SOURCE / "config" / "kafka_configs.json").read_text())
    blocks = {
        "broker": key_support._BROKER,
        "topic": key_support._TOPIC,
        "group": key_support._GROUP,
        "client_metrics": key_support._CLIENT_METRICS,
    }
    for scope, treated in blocks.items():
        names = [name for _, _, keys in treated for name in keys.split()]
        assert len(names) == len(set(names)), f"{scope}: treated twice"
        kafkas = {name for name in names if not name.startswith("klamm.")}
        assert kafkas == set(data[scope]), scope
        assert set(KEY_SUPPORT[scope]) == set(names)


def test_what_has_no_effect_or_is_refused_says_why() -> None:
    """Each key that has no effect or is refused has a reason."""
    assert not [key.name for key in all_keys() if key.support is not KeySupport.HONOURED and not key.reason]


def test_each_honoured_broker_key_reaches_the_broker() -> None:
    """Each honoured broker key has a field of BrokerConfig, sets a field of TopicConfig, or is read during loading or
    from the metadata."""
    broker_fields = {field.name.replace("_", ".") for field in fields(BrokerConfig)}
    topic_fields = {field.name.replace("_", ".") for field in fields(TopicConfig)}
    feeding = {name for topic_key in topic_fields for name, _ in topic_synonyms().get(topic_key, ())}
    honoured = {name for name, key in broker_keys().items() if key.support is KeySupport.HONOURED}
    assert honoured - broker_fields - feeding - READ_WHILE_LOADING - READ_FROM_METADATA == set()
    assert broker_fields & set(broker_keys()) <= honoured


def test_each_field_is_read_somewhere() -> None:
    """The code reads each configuration field; a field that is never read would be honoured in name only."""
    read: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        if path.parent != SOURCE / "config" and path.parent.name != "schema":
            tree = ast.parse(path.read_text(encoding="utf-8"))
            read |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    # These fields are read through properties of the configuration.
    through = {
        "log_dirs": "data_directory",
        "klamm_cluster_id": "cluster_id",
        "max_compaction_lag_ms": "max_segment_ms",
        "segment_ms": "max_segment_ms",
        "cleanup_policy": "compact",
        "explicit": "explicit",
    }
    names = {field.name for config in (BrokerConfig, TopicConfig) for field in fields(config)}
    assert {name for name in names if through.get(name, name) not in read} == set()


def test_the_defaults_of_the_broker_are_kafkas_but_for_what_klamm_says() -> None:
    """Each field of BrokerConfig has Kafka's default, except for the keys of klamm's baseline and for the listeners,
    whose values depend on each other."""
    keys = broker_keys()
    resolved = {"advertised_listeners", "inter_broker_listener_name"}
    config = BrokerConfig()
    for field in fields(BrokerConfig):
        key = keys.get(field.name.replace("_", "."))
        if key is not None and key.name not in BASELINE and field.name not in resolved:
            assert getattr(config, field.name) == key.default_value(), key.name


def test_the_table_is_apache_kafkas() -> None:
    """The table is of Apache Kafka 4.3.0, with as many keys as Kafka's documentation lists."""
    assert kafka_version() == "4.3.0"
    kafkas = [
        [name for name in keys if not name.startswith("klamm.")] for keys in (broker_keys(), topic_keys(), group_keys())
    ]
    assert [len(names) for names in kafkas] == [363, 34, 17]


@pytest.mark.parametrize("key", all_keys(), ids=lambda key: f"{key.scope}:{key.name}")
def test_each_default_is_a_value_of_its_key(key: ConfigKey) -> None:
    """Each default passes the type and the range of its own key."""
    # Keys with a validator in code are skipped: one default of Kafka is no valid setting, since no quorum needs it.
    if key.default is not None and not (key.check is not None and key.check[0] == "code"):
        assert key.parse(key.default) == key.default_value()


def test_synonyms_lead_to_keys_that_exist() -> None:
    """The synonyms of topic, group and broker keys are existing broker keys."""
    assert {name for synonyms in topic_synonyms().values() for name, _ in synonyms} <= set(broker_keys())
    assert set(group_synonyms().values()) <= set(broker_keys())
    assert broker_synonyms("log.retention.hours") == (
        "log.retention.ms",
        "log.retention.minutes",
        "log.retention.hours",
    )
    assert broker_synonyms("num.partitions") == ("num.partitions",)


def test_units_of_synonyms_are_those_of_kafka() -> None:
    """Synonyms convert units as in Kafka: hours and minutes of the broker become milliseconds of the topic."""
    assert topic_synonyms()["retention.ms"] == (
        ("log.retention.ms", 1),
        ("log.retention.minutes", 60_000),
        ("log.retention.hours", 3_600_000),
    )


def test_dynamic_keys_are_those_of_kafka() -> None:
    """The update mode of each key is Kafka's, because DescribeConfigs depends on it."""
    keys = broker_keys()
    assert keys["max.connections"].update_mode == "cluster-wide"
    assert keys["listeners"].update_mode == "per-broker"
    assert keys["node.id"].update_mode == "read-only"
    assert keys["leader.replication.throttled.rate"].is_dynamic_only
    assert keys["ssl.keystore.password"].is_sensitive
