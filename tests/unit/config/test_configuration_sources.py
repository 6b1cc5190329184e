from __future__ import annotations

import logging
from pathlib import Path

import pytest

from klamm.config.broker_config import BASELINE, CONSUMER_ASSIGNORS, BrokerConfig
from klamm.config.configuration_sources import environment_variable
from klamm.config.errors import ConfigurationError
from klamm.config.listeners import Listener

# The file config/server.properties of Apache Kafka 4.3, without its comments.
STOCK = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,\\
  SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


def test_nothing_set_is_a_broker_that_needs_no_settings() -> None:
    """Without settings, the broker listens on loopback and Kafka's port and stores data in one folder; its static
    configuration is the baseline."""
    config = BrokerConfig.load()
    assert config == BrokerConfig()
    assert config.listeners == (Listener("PLAINTEXT", "127.0.0.1", 9092),)
    assert config.data_directory == Path("klamm-data")
    assert config.explicit == BASELINE


def test_kafkas_own_file_starts_a_broker(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Kafka's stock configuration file starts a broker: the controller's listener is ignored, and one line names the
    keys without effect."""
    file = tmp_path / "server.properties"
    file.write_text(STOCK)
    with caplog.at_level(logging.WARNING):
        config = BrokerConfig.load(file=file)
    assert config.listeners == (Listener("PLAINTEXT", "", 9092),)
    assert config.advertised_listeners == (Listener("PLAINTEXT", "localhost", 9092),)
    assert config.num_recovery_threads_per_data_dir == 1
    assert config.explicit["listeners"] == "PLAINTEXT://:9092,CONTROLLER://:9093"
    assert [record.getMessage() for record in caplog.records] == [
        "These configuration keys are set and have no effect: controller.quorum.bootstrap.servers, "
        "num.io.threads, num.network.threads, socket.receive.buffer.bytes, socket.send.buffer.bytes"
    ]


def test_flag_goes_before_environment_before_file_before_profile(tmp_path: Path) -> None:
    """A flag overrides the environment, the environment overrides the file, and the file overrides the profile."""
    file = tmp_path / "server.properties"
    file.write_text("group.initial.rebalance.delay.ms=1\nnum.partitions=1\nfetch.max.bytes=2001\n")
    environ = {"KLAMM_NUM_PARTITIONS": "2", "KLAMM_FETCH_MAX_BYTES": "2002", "HOME": "/"}
    flags = {"fetch.max.bytes": "2003"}
    config = BrokerConfig.load(flags, environ, file, "test")
    assert config.offsets_topic_num_partitions == 1, "from the profile"
    assert config.group_initial_rebalance_delay_ms == 1, "from the file, over the profile"
    assert config.num_partitions == 2, "from the environment, over the file"
    assert config.fetch_max_bytes == 2003, "from the flag, over all"


def test_a_stronger_place_hides_the_other_names_of_a_setting() -> None:
    """A setting in a stronger source hides its synonyms in weaker sources, so log.retention.hours of a flag hides
    log.retention.ms of a file."""
    config = BrokerConfig.load({"log.retention.hours": "1"}, {"KLAMM_LOG_RETENTION_MS": "5", "KLAMM_LOG_DIR": "/e"})
    assert config.topic_defaults.retention_ms == 3_600_000
    assert config.data_directory == Path("/e")
    assert BrokerConfig.load({"broker.id": "7"}).node_id == 7


def test_listeners_of_a_flag_keep_the_advertised_addresses_of_the_file(tmp_path: Path) -> None:
    """A flag overrides its own key only, as in Kafka, so `listeners` of a flag keeps the file's advertised
    addresses."""
    file = tmp_path / "server.properties"
    file.write_text(STOCK)
    config = BrokerConfig.load({"listeners": "PLAINTEXT://127.0.0.1:0"}, file=file)
    assert (config.listen_host, config.listen_port) == ("127.0.0.1", 0)
    assert config.advertised_listeners == (Listener("PLAINTEXT", "localhost", 9092),)


def test_advertised_addresses_of_other_listeners_stop_the_start(tmp_path: Path) -> None:
    """If advertised.listeners do not match the listeners, the start fails with a message that names both keys and
    their sources."""
    file = tmp_path / "server.properties"
    file.write_text("listeners=OUT://:1\nadvertised.listeners=OUT://public:1\n")
    with pytest.raises(ConfigurationError, match="must name the same listeners as listeners: PLAINTEXT, not OUT") as e:
        BrokerConfig.load({"listeners": "PLAINTEXT://:2"}, file=file)
    assert "listeners=PLAINTEXT://:2 (-X)" in str(e.value)
    assert f"advertised.listeners=OUT://public:1 ({file}, line 2)" in str(e.value)


def test_in_one_place_the_finer_unit_wins() -> None:
    """In one source, the finer unit wins, as in Kafka: milliseconds before minutes before hours."""
    flags = {"log.retention.hours": "1", "log.retention.minutes": "2", "log.roll.hours": "3", "log.roll.ms": "4"}
    defaults = BrokerConfig.load(flags).topic_defaults
    assert (defaults.retention_ms, defaults.segment_ms) == (120_000, 4)


def test_broker_keys_become_the_defaults_of_topics() -> None:
    """Broker keys set the defaults of topics, each under its own name and unit; a negative retention means no limit."""
    flags = {
        "message.max.bytes": "1000",
        "log.segment.delete.delay.ms": "1",
        "log.index.size.max.bytes": "4096",
        "log.flush.scheduler.interval.ms": "10",
        "log.roll.jitter.hours": "1",
        "log.cleanup.policy": "compact, delete",
        "log.retention.hours": "-5",
        "compression.type": "zstd",
    }
    defaults = BrokerConfig.load(flags).topic_defaults
    assert defaults.max_message_bytes == 1000
    assert defaults.file_delete_delay_ms == 1
    assert defaults.segment_index_bytes == 4096
    assert defaults.flush_ms == 10
    assert defaults.segment_jitter_ms == 3_600_000
    assert defaults.cleanup_policy == {"compact", "delete"}
    assert defaults.retention_ms == -1
    assert defaults.compression_type == "zstd"


def test_an_unknown_key_is_ignored_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Unknown keys are ignored with one warning, as in Kafka, so that a file for a plugin or an older version works."""
    with caplog.at_level(logging.WARNING):
        BrokerConfig.load(
            {"zookeeper.connect": "x", "foo": "y", "leader.replication.throttled.rate": "1", "num.partition": "2"}
        )
    assert [record.getMessage() for record in caplog.records] == [
        "These configuration keys are not known and are ignored: foo, leader.replication.throttled.rate, "
        "num.partition (did you mean num.partitions?), zookeeper.connect"
    ]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            {"log.retention.ms": "soon"},
            "log.retention.ms=soon (-X): Not a number of type LONG; allowed is a whole number of 64 bits",
        ),
        (
            {"auto.create.topics.enable": "yes"},
            "auto.create.topics.enable=yes (-X): Expected value to be either true or false; allowed are true and false",
        ),
        (
            {"num.partitions": "0"},
            "num.partitions=0 (-X): Value must be at least 1; allowed: [1,...]",
        ),
        (
            {"broker.id": "x"},
            "broker.id=x (-X): Not a number of type INT; allowed are whole numbers from -2147483648 to 2147483647",
        ),
        (
            {"log.retention.minutes": "0"},
            "log.retention.ms must be unlimited (-1) or, greater than or equal to 1 [log.retention.minutes=0 (-X)]",
        ),
        (
            {"log.roll.ms": "0"},
            "log.roll.ms must be greater than or equal to 1 [log.roll.ms=0 (-X)]",
        ),
        (
            {"log.roll.jitter.ms": "-1"},
            "log.roll.jitter.ms must be greater than or equal to 0 [log.roll.jitter.ms=-1 (-X)]",
        ),
        (
            {"log.cleaner.min.compaction.lag.ms": "5", "log.cleaner.max.compaction.lag.ms": "4"},
            "log.cleaner.min.compaction.lag.ms (5) must not be greater than log.cleaner.max.compaction.lag.ms (4) "
            "[log.cleaner.min.compaction.lag.ms=5 (-X); log.cleaner.max.compaction.lag.ms=4 (-X)]",
        ),
        (
            {"node.id": "1", "broker.id": "2"},
            "node.id must have the same value as broker.id where both are set [node.id=1 (-X); broker.id=2 (-X)]",
        ),
        (
            {"process.roles": "controller"},
            "process.roles must contain broker: there is no process that is a controller only "
            "[process.roles=controller (-X)]",
        ),
        (
            {"log.dirs": "/a,/b"},
            "log.dirs must name one folder: everything is stored in one, not in 2 [log.dirs=/a,/b (-X)]",
        ),
        (
            {"queued.max.request.bytes": "5", "socket.request.max.bytes": "6"},
            "queued.max.request.bytes must be at least socket.request.max.bytes (6) "
            "[queued.max.request.bytes=5 (-X); socket.request.max.bytes=6 (-X)]",
        ),
        (
            {"max.connections.per.ip": "0"},
            "max.connections.per.ip must be at least 1: there are no overrides for single hosts "
            "[max.connections.per.ip=0 (-X)]",
        ),
        (
            {"log.cleaner.threads": "0"},
            "log.cleaner.threads must be at least 1: log.cleaner.enable=false stops the cleaner "
            "[log.cleaner.threads=0 (-X)]",
        ),
        (
            {"log.cleaner.threads": "4", "log.cleaner.dedupe.buffer.size": "4194304"},
            "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread. "
            "[log.cleaner.dedupe.buffer.size=4194304 (-X)]",
        ),
        (
            {"offsets.topic.compression.codec": "5"},
            "offsets.topic.compression.codec must be 0 none, 1 gzip, 2 snappy, 3 lz4 or 4 zstd "
            "[offsets.topic.compression.codec=5 (-X)]",
        ),
        (
            {"listeners": "9092"},
            "listeners: '9092' is not a listener: NAME://HOST:PORT is needed, such as PLAINTEXT://127.0.0.1:9092 "
            "[listeners=9092 (-X)]",
        ),
        (
            {"listeners": "PLAINTEXT://a:1,PLAINTEXT://b:2"},
            "listeners: each listener must have a different name [listeners=PLAINTEXT://a:1,PLAINTEXT://b:2 (-X)]",
        ),
        (
            {"listeners": "CONTROLLER://:1"},
            "listeners must contain one that is not a controller's [listeners=CONTROLLER://:1 (-X)]",
        ),
        (
            {"listeners": "SSL://:1"},
            "listeners: SSL://:1 asks for SSL; only PLAINTEXT is served so far [listeners=SSL://:1 (-X)]",
        ),
        (
            {"listeners": "IN://:1"},
            "listeners: IN://:1 has no protocol; say which in listener.security.protocol.map, as IN:PLAINTEXT "
            "[listeners=IN://:1 (-X)]",
        ),
        (
            {"listeners": "PLAINTEXT://:1", "advertised.listeners": "OTHER://h:1"},
            "advertised.listeners must name the same listeners as listeners: PLAINTEXT, not OTHER "
            "[listeners=PLAINTEXT://:1 (-X); advertised.listeners=OTHER://h:1 (-X)]",
        ),
        (
            {"advertised.listeners": "PLAINTEXT://0.0.0.0:1"},
            "advertised.listeners must name a host that clients can reach, unlike PLAINTEXT://0.0.0.0:1 "
            "[advertised.listeners=PLAINTEXT://0.0.0.0:1 (-X)]",
        ),
        (
            {"group.consumer.assignors": "uniform,com.example.Own"},
            "group.consumer.assignors must name assignors among uniform, range, load, not com.example.Own "
            "[group.consumer.assignors=uniform,com.example.Own (-X)]",
        ),
        (
            {"group.coordinator.rebalance.protocols": "consumer"},
            "group.coordinator.rebalance.protocols must contain classic, which can't be disabled "
            "[group.coordinator.rebalance.protocols=consumer (-X)]",
        ),
        (
            {"group.consumer.heartbeat.interval.ms": "4999"},
            "group.consumer.heartbeat.interval.ms must be greater than or equal to "
            "group.consumer.min.heartbeat.interval.ms [group.consumer.heartbeat.interval.ms=4999 (-X)]",
        ),
        (
            {"group.consumer.max.session.timeout.ms": "44000"},
            "group.consumer.max.session.timeout.ms must be greater than or equal to "
            "group.consumer.min.session.timeout.ms [group.consumer.max.session.timeout.ms=44000 (-X)]",
        ),
        (
            {"group.consumer.session.timeout.ms": "60001"},
            "group.consumer.session.timeout.ms must be less than or equal to group.consumer.max.session.timeout.ms "
            "[group.consumer.session.timeout.ms=60001 (-X)]",
        ),
        (
            {"group.share.max.heartbeat.interval.ms": "60000", "group.share.heartbeat.interval.ms": "45000"},
            "group.share.heartbeat.interval.ms must be less than group.share.session.timeout.ms "
            "[group.share.heartbeat.interval.ms=45000 (-X)]",
        ),
        (
            {"group.streams.assignment.interval.ms": "15001"},
            "group.streams.assignment.interval.ms must be less than or equal to "
            "group.streams.max.assignment.interval.ms [group.streams.assignment.interval.ms=15001 (-X)]",
        ),
        (
            {"group.streams.num.standby.replicas": "3"},
            "group.streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas "
            "[group.streams.num.standby.replicas=3 (-X)]",
        ),
    ],
)
def test_what_can_not_be_stops_the_start_with_key_value_and_place(flags: dict[str, str], message: str) -> None:
    """An impossible setting stops the start with an error that names the key, the value and the source."""
    with pytest.raises(ConfigurationError) as refusal:
        BrokerConfig.load(flags)
    assert str(refusal.value) == message


def test_a_refused_key_stops_the_start_with_the_reason() -> None:
    """A refused key stops the start with the reason, for the broker or for one listener: an ignored security key
    would give false safety."""
    for key in ("authorizer.class.name", "ssl.keystore.location", "listener.name.plaintext.ssl.keystore.location"):
        with pytest.raises(ConfigurationError, match=r"\(-X\) is refused\. There is no TLS, SASL, ACL"):
            BrokerConfig.load({key: "/secret"})


def test_kafkas_default_of_a_refused_key_is_taken() -> None:
    """Kafka's default value of a refused key is accepted, so that a file that lists the defaults works."""
    flags = {"security.inter.broker.protocol": "PLAINTEXT", "ssl.client.auth": "none", "sasl.jaas.config": ""}
    with pytest.raises(ConfigurationError, match=r"sasl\.jaas\.config \(-X\) is refused"):
        BrokerConfig.load(flags)
    del flags["sasl.jaas.config"]
    BrokerConfig.load(flags)


def test_assignors_are_named_as_they_call_themselves_or_by_kafkas_classes() -> None:
    """Assignors are named by their own names or by Kafka's classes, as in a file for Apache Kafka 3.7; their order is
    kept."""
    package = "org.apache.kafka.coordinator.group.assignor"
    text = f"{package}.RangeAssignor, load,{package}.UniformAssignor,range"
    assert BrokerConfig.load({"group.consumer.assignors": text}).group_consumer_assignors == (
        "range",
        "load",
        "uniform",
    )
    assert BrokerConfig.load({"num.partitions": "2"}).group_consumer_assignors == CONSUMER_ASSIGNORS


def test_a_listener_of_any_name_serves_when_it_is_mapped_to_plaintext() -> None:
    """A listener with any name is served if it is mapped to PLAINTEXT; advertised addresses follow the order of the
    listeners."""
    flags = {
        "listeners": "IN://:1,OUT://0.0.0.0:2",
        "listener.security.protocol.map": "IN:PLAINTEXT,OUT:PLAINTEXT",
        "advertised.listeners": "OUT://public:2,IN://private:1",
        "inter.broker.listener.name": "in",
    }
    config = BrokerConfig.load(flags)
    assert [listener.name for listener in config.listeners] == ["IN", "OUT"]
    assert [listener.host for listener in config.advertised_listeners] == ["private", "public"]
    assert config.inter_broker_listener_name == "IN"


def load_listeners(names: str, **flags: str) -> BrokerConfig:
    """Returns the configuration of a broker with listeners of these names, all of them PLAINTEXT."""
    named = names.split(",")
    return BrokerConfig.load(
        {
            "listeners": ",".join(f"{name}://:{port}" for port, name in enumerate(named, 9092)),
            "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in named),
        }
        | {key.replace("_", "."): value for key, value in flags.items()}
    )


@pytest.mark.parametrize(
    ("names", "flags", "expected"),
    [
        ("PLAINTEXT", {}, "PLAINTEXT"),
        ("CLIENTS,PLAINTEXT", {}, "PLAINTEXT"),
        ("CLIENTS", {}, "CLIENTS"),
        ("CLIENTS,BROKERS", {"inter_broker_listener_name": "BROKERS"}, "BROKERS"),
        ("CLIENTS,PLAINTEXT", {"security_inter_broker_protocol": "PLAINTEXT"}, "PLAINTEXT"),
    ],
)
def test_the_listener_between_brokers(names: str, flags: dict[str, str], expected: str) -> None:
    """Brokers talk through the listener that a key names, by default PLAINTEXT; a single listener has any name."""
    assert load_listeners(names, **flags).inter_broker_listener_name == expected


@pytest.mark.parametrize(
    ("names", "flags", "message"),
    [
        ("CLIENTS,BROKERS", {}, "inter.broker.listener.name must be one of the listeners CLIENTS, BROKERS"),
        ("PLAINTEXT", {"inter_broker_listener_name": "BROKERS"}, "inter.broker.listener.name must be one of"),
        ("CLIENTS", {"security_inter_broker_protocol": "PLAINTEXT"}, "inter.broker.listener.name must be one of"),
        ("PLAINTEXT", {"security_inter_broker_protocol": "SSL"}, "security.inter.broker.protocol must be PLAINTEXT"),
        (
            "PLAINTEXT",
            {"security_inter_broker_protocol": "PLAINTEXT", "inter_broker_listener_name": "PLAINTEXT"},
            "inter.broker.listener.name and security.inter.broker.protocol must not both be set",
        ),
    ],
)
def test_a_listener_between_brokers_that_does_not_exist(names: str, flags: dict[str, str], message: str) -> None:
    """A broker does not start if brokers could not talk through the listener that is named, as in Kafka."""
    with pytest.raises(ConfigurationError, match=message):
        load_listeners(names, **flags)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """A missing file is reported by its name."""
    with pytest.raises(ConfigurationError, match=r"can't read .*nowhere: No such file or directory"):
        BrokerConfig.load(file=tmp_path / "nowhere")


def test_a_bad_value_in_a_file_is_named_with_its_line(tmp_path: Path) -> None:
    """An invalid value in a file is reported with the line where its entry begins."""
    file = tmp_path / "server.properties"
    file.write_text("# first\nnum.partitions=many\n")
    with pytest.raises(ConfigurationError) as refusal:
        BrokerConfig.load(file=file)
    assert str(refusal.value).startswith(f"num.partitions=many ({file}, line 2): Not a number")


def test_a_secret_is_not_repeated() -> None:
    """An error message never contains the value of a secret."""
    with pytest.raises(ConfigurationError) as refusal:
        BrokerConfig.load({"ssl.keystore.password": "hunter2"})
    assert "hunter2" not in str(refusal.value)


def test_klamms_own_keys_do_not_repeat_the_name_in_the_environment() -> None:
    """The variable of a klamm key has the prefix once (KLAMM_CLUSTER_ID), like the variable of a Kafka key
    (KLAMM_LOG_RETENTION_MS)."""
    assert environment_variable("klamm.cluster.id") == "KLAMM_CLUSTER_ID"
    assert environment_variable("log.retention.ms") == "KLAMM_LOG_RETENTION_MS"
    assert BrokerConfig.load(environ={"KLAMM_CLUSTER_ID": "abc"}).cluster_id == "abc"


def test_what_clients_read_in_the_environment_is_no_key(caplog: pytest.LogCaptureFixture) -> None:
    """KLAMM_BOOTSTRAP_SERVER is for client commands, so the broker ignores it without a warning."""
    assert BrokerConfig.load(environ={"KLAMM_BOOTSTRAP_SERVER": "127.0.0.1:1"}) == BrokerConfig()
    assert not caplog.records
