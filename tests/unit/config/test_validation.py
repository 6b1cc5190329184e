from __future__ import annotations

import pytest

from klamm.config.broker_config import BASELINE, BrokerConfig
from klamm.config.layers import BrokerLayers
from klamm.config.topic_config import TopicConfig
from klamm.config.validation import (
    validate_broker_configs,
    validate_client_metrics_configs,
    validate_group_configs,
    validate_topic_configs,
)
from klamm.protocol.errors import ErrorCode, KafkaError

LAYERS = BrokerLayers(BASELINE)


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"retention": "1"}, "Unknown topic config name: retention"),
        ({"retention.ms": "-2"}, "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        ({"retention.ms": "x"}, "Invalid value x for configuration retention.ms: Not a number of type LONG"),
        (
            {"cleanup.policy": "remove"},
            "Invalid value remove for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        (
            {"segment.bytes": "1000"},
            "Invalid value 1000 for configuration segment.bytes: Value must be at least 1048576",
        ),
        (
            {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"},
            "conflict topic config setting min.compaction.lag.ms (5) > max.compaction.lag.ms (4)",
        ),
        (
            {"remote.storage.enable": "true"},
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log "
            "storage.",
        ),
    ],
)
def test_a_topic_that_can_not_be_so_is_refused_in_kafkas_words(configs: dict[str, str], message: str) -> None:
    """An invalid topic configuration gets INVALID_CONFIG with the message of Kafka's LogConfig."""
    with pytest.raises(KafkaError) as refusal:
        validate_topic_configs(configs)
    assert (refusal.value.code, refusal.value.message) == (ErrorCode.INVALID_CONFIG, message)


def test_a_topic_is_held_against_the_defaults_of_the_broker() -> None:
    """A topic's configuration is checked against the broker's defaults, because a valid lag can contradict the
    broker's lag."""
    with pytest.raises(KafkaError, match="conflict topic config setting"):
        validate_topic_configs({"min.compaction.lag.ms": "5"}, TopicConfig(max_compaction_lag_ms=4))


def test_a_good_topic_passes() -> None:
    """A valid topic configuration is accepted, including keys without effect."""
    validate_topic_configs({"cleanup.policy": "", "local.retention.ms": "5", "remote.storage.enable": "false"})


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"session.timeout.ms": "1"}, "Unknown group config name: session.timeout.ms"),
        (
            {"consumer.session.timeout.ms": "1000"},
            "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        (
            {"share.record.lock.duration.ms": "60001"},
            "share.record.lock.duration.ms must be less than or equal to group.share.max.record.lock.duration.ms",
        ),
        (
            {"streams.num.standby.replicas": "3"},
            "streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas",
        ),
        (
            {"consumer.assignment.interval.ms": "15001"},
            "consumer.assignment.interval.ms must be less than or equal to group.consumer.max.assignment.interval.ms",
        ),
        (
            {"share.isolation.level": "none"},
            "Invalid value none for configuration share.isolation.level: String must be one of: read_committed, "
            "read_uncommitted",
        ),
    ],
)
def test_a_group_outside_of_the_brokers_bounds_is_refused(configs: dict[str, str], message: str) -> None:
    """A group configuration outside of the broker's bounds gets INVALID_CONFIG with the message of Kafka's
    GroupConfig."""
    with pytest.raises(KafkaError) as refusal:
        validate_group_configs(configs, LAYERS.values())
    assert (refusal.value.code, refusal.value.message) == (ErrorCode.INVALID_CONFIG, message)


@pytest.mark.parametrize(
    ("key", "good", "bad", "reason"),
    [
        ("previous.owner.ms", "0", "-1", "Value must be at least 0"),
        ("load.lag.drain.ms", "1", "0", "Value must be at least 1"),
        ("load.hysteresis.ratio", "0.5", "NaN", "Value must be finite"),
        ("load.partition.cost", "0", "-0.1", "Value must be at least 0"),
        ("load.topic.weight.orders", "2.5", "-1", "Value must be at least 0"),
        ("load.topic.weight.orders", "0", "heavy", "Not a number of type DOUBLE"),
        ("load.topic.weight.a.b_c", "1", "Infinity", "Value must be finite"),
    ],
)
def test_klamms_own_group_keys_are_checked_too(key: str, good: str, bad: str, reason: str) -> None:
    """klamm's own group keys are checked by type and range, like Kafka's; each topic's weight is a separate key."""
    validate_group_configs({f"klamm.consumer.assignor.{key}": good}, LAYERS.values())
    with pytest.raises(KafkaError, match=reason) as refusal:
        validate_group_configs({f"klamm.consumer.assignor.{key}": bad}, LAYERS.values())
    assert refusal.value.code is ErrorCode.INVALID_CONFIG


def test_a_weight_names_its_topic() -> None:
    """A weight without a topic name is an unknown key."""
    with pytest.raises(KafkaError, match="Unknown group config name"):
        validate_group_configs({"klamm.consumer.assignor.load.topic.weight.": "1"}, LAYERS.values())


def test_a_session_must_outlast_a_heartbeat() -> None:
    """A group's session timeout must exceed its heartbeat interval."""
    layers = BrokerLayers({"group.consumer.max.heartbeat.interval.ms": "50000"})
    with pytest.raises(KafkaError, match="must be greater than"):
        validate_group_configs({"consumer.heartbeat.interval.ms": "45000"}, layers.values())
    validate_group_configs({"consumer.heartbeat.interval.ms": "44999"}, layers.values())


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        (
            {"num.partitions": "2", "node.id": "2"},
            "Cannot update these configs dynamically: [node.id, num.partitions]",
        ),
        ({"listeners": "PLAINTEXT://:1"}, "Cannot update these configs dynamically: [listeners]"),
        (
            {"max.connections": "-1"},
            "Invalid value -1 for configuration max.connections: Value must be at least 0",
        ),
        ({"log.retention.ms": "0"}, "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"),
        (
            {"group.consumer.assignment.interval.ms": "15001"},
            "group.consumer.assignment.interval.ms must be less than or equal to "
            "group.consumer.max.assignment.interval.ms",
        ),
        (
            {"cordoned.log.dirs": "/a,klamm-data,/b"},
            "requirement failed: All entries in cordoned.log.dirs must be present in log.dirs or log.dir. "
            "Missing entries : /a, /b",
        ),
        (
            {"cordoned.log.dirs": "*,klamm-data"},
            "requirement failed: When cordoned.log.dirs is set to *, it must not contain other values",
        ),
    ],
)
def test_a_running_broker_that_can_not_be_so_is_refused(configs: dict[str, str], message: str) -> None:
    """An invalid dynamic broker setting gets INVALID_REQUEST, as in Kafka."""
    with pytest.raises(KafkaError) as refusal:
        validate_broker_configs(configs, BrokerConfig(), LAYERS, per_broker=True)
    assert (refusal.value.code, refusal.value.message) == (ErrorCode.INVALID_REQUEST, message)


def test_protection_can_not_be_asked_of_a_running_broker_either() -> None:
    """A dynamic TLS key is refused, both for the broker and for a listener."""
    for key in ("ssl.keystore.location", "listener.name.plaintext.ssl.keystore.location"):
        with pytest.raises(KafkaError, match=f"{key} is refused. There is no TLS"):
            validate_broker_configs({key: "/a"}, BrokerConfig(), LAYERS, per_broker=True)


@pytest.mark.parametrize("value", ["", "*", "klamm-data", str(BrokerConfig().data_directory.absolute())])
def test_the_one_log_directory_can_be_cordoned(value: str) -> None:
    """A running broker accepts its folder as configured or as an absolute path, and * (KIP-1066)."""
    validate_broker_configs({"cordoned.log.dirs": value}, BrokerConfig(), LAYERS, per_broker=True)


def test_what_is_one_brokers_can_not_be_set_for_the_cluster() -> None:
    """A per-broker key can't be set for the cluster, because each broker has its own folders."""
    reason = "Cannot update these configs at default cluster level, broker id must be specified: [cordoned.log.dirs]"
    with pytest.raises(KafkaError) as refusal:
        validate_broker_configs({"cordoned.log.dirs": ""}, BrokerConfig(), LAYERS, per_broker=False)
    assert refusal.value.message == reason
    validate_broker_configs({"cordoned.log.dirs": ""}, BrokerConfig(), LAYERS, per_broker=True)


@pytest.mark.parametrize(
    ("threads", "reason"),
    [
        ("0", "log.cleaner.threads must be at least 1: log.cleaner.enable=false stops the cleaner"),
        ("1", "Log cleaner threads cannot be reduced to less than half the current value 4"),
        ("9", "Log cleaner threads cannot be increased to more than double the current value 4"),
    ],
)
def test_threads_of_a_running_cleaner_come_and_go_by_steps(threads: str, reason: str) -> None:
    """The threads of a running cleaner may be halved or doubled at most, as in Kafka."""
    layers = BrokerLayers({"log.cleaner.threads": "4"})
    config = BrokerConfig(log_cleaner_threads=4)
    with pytest.raises(KafkaError) as refusal:
        validate_broker_configs({"log.cleaner.threads": threads}, config, layers, per_broker=False)
    assert refusal.value.message == reason
    for fine in ("2", "8"):
        validate_broker_configs({"log.cleaner.threads": fine}, config, layers, per_broker=False)


def test_unknown_keys_pass_as_in_kafka() -> None:
    """Unknown keys are accepted, as in Kafka, because they may belong to a plugin."""
    validate_broker_configs({"my.key": "x", "log.cleaner.threads": "2"}, BrokerConfig(), LAYERS, per_broker=False)


@pytest.mark.parametrize(
    ("name", "configs", "code", "message"),
    [
        ("", {}, ErrorCode.INVALID_REQUEST, "Subscription name can't be empty"),
        ("s", {"x": "1"}, ErrorCode.INVALID_REQUEST, "Unknown client metrics configuration: x"),
        (
            "s",
            {"interval.ms": "99"},
            ErrorCode.INVALID_REQUEST,
            "Invalid value 99 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        ),
        ("s", {"match": "host=a"}, ErrorCode.INVALID_CONFIG, "Illegal client matching pattern: host=a"),
        ("s", {"match": "client_id"}, ErrorCode.INVALID_CONFIG, "Illegal client matching pattern: client_id"),
    ],
)
def test_a_metrics_subscription_that_can_not_be_so_is_refused(
    name: str, configs: dict[str, str], code: ErrorCode, message: str
) -> None:
    """An invalid metrics subscription is refused with the codes and messages of Kafka's ClientMetricsConfigs."""
    with pytest.raises(KafkaError) as refusal:
        validate_client_metrics_configs(name, configs)
    assert (refusal.value.code, refusal.value.message) == (code, message)


def test_a_good_metrics_subscription_passes() -> None:
    """A valid metrics subscription is accepted, although the broker does not collect client metrics."""
    validate_client_metrics_configs("s", {"metrics": "a,b", "interval.ms": "100", "match": "client_id=a.*"})
