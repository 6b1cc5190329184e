"""Apache Kafka's `kafka-features` and klamm's own command on a cluster whose metadata has version 1."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from tests.integration.cli.conftest import Command, until
from tests.interop.broker_process import BrokerProcess
from tests.support.etcd_server import Etcd

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

_FEATURE = "klamm.metadata.version"
_FAILED = "The update failed for all features since the following feature had an error: "


@pytest.fixture
def old_cluster(tmp_path: Path) -> Iterator[str]:
    """Runs two brokers on a store that an earlier version of klamm made; returns their addresses."""
    with ExitStack() as stack:
        etcd = stack.enter_context(Etcd(tmp_path / "etcd"))
        etcd.put("/test/cluster", b'{"id":"MkU3OEVBNTcwNTJENDM2Qk"}')
        etcd.put("/test/features", b'{"metadata.version":1}')
        brokers = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            options = ["--profile", "test", "--metadata", etcd.url()]
            brokers.append(BrokerProcess(tmp_path / name, {}, options=options))
            stack.callback(brokers[-1].stop)
        yield ",".join(broker.bootstrap_servers for broker in brokers)


def test_version_of_the_metadata_is_described_and_raised(kafka_classpath: str, old_cluster: str) -> None:
    """`kafka-features` shows klamm's version next to Kafka's features, refuses what Kafka refuses, and raises it. The
    cluster then makes replicas."""

    def features(*words: str) -> str:
        command = ["java", "-XX:TieredStopAtLevel=1", "-cp", kafka_classpath, "org.apache.kafka.tools.FeatureCommand"]
        ran = subprocess.run(
            [*command, "--bootstrap-server", old_cluster, *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        return ran.stdout + ran.stderr

    def levels() -> dict[str, str]:
        lines = [line.split() for line in features("describe").splitlines() if line.startswith("Feature:")]
        return {words[1]: words[words.index("FinalizedVersionLevel:") + 1] for words in lines}

    assert levels() == {
        "eligible.leader.replicas.version": "1",
        "group.version": "1",
        _FEATURE: "1",
        "kraft.version": "0",
        "metadata.version": "4.3-IV0",
        "share.version": "0",
        "streams.version": "0",
        "transaction.version": "2",
    }
    admin = AdminClient({"bootstrap.servers": old_cluster})
    wanted = NewTopic("orders", 1, 2)
    with pytest.raises(KafkaException, match="klamm cluster metadata version --raise"):
        admin.create_topics([wanted])["orders"].result()

    beyond = features("upgrade", "--feature", f"{_FEATURE}=9")
    assert f"{_FAILED}Invalid update version 9 for feature {_FEATURE}. Local controller " in beyond
    assert "only supports versions 1-2" in beyond
    assert "Can't downgrade to a newer version." in features("downgrade", "--feature", f"{_FEATURE}=2")
    assert "only supports versions 1-2" in features("disable", "--feature", _FEATURE)
    assert f"{_FEATURE} can be upgraded to 2." in features("upgrade", "--feature", f"{_FEATURE}=2", "--dry-run")
    assert levels()[_FEATURE] == "1"

    assert f"{_FEATURE} was upgraded to 2." in features("upgrade", "--feature", f"{_FEATURE}=2")
    until(lambda: levels()[_FEATURE] == "2")  # the tool may ask the other broker, which hears of it a little later
    assert "upgraded to 2." in features("upgrade", "--feature", f"{_FEATURE}=2")
    assert "klamm does not downgrade features" in features("downgrade", "--feature", f"{_FEATURE}=1")
    admin.create_topics([wanted])["orders"].result()

    def replicas() -> list[int]:
        partitions = admin.list_topics("orders", timeout=30).topics["orders"].partitions
        return [len(partition.replicas) for partition in partitions.values()]

    until(lambda: replicas() == [2])


def test_command_raises_the_version(old_cluster: str) -> None:
    """`klamm cluster metadata version` shows the version of each broker, and --raise raises it, once."""
    command = Command(old_cluster)
    words = ("cluster", "metadata", "version")
    assert [row["version"] for row in command.rows(*words)] == [1, 1]
    assert "--raise" in command.done(*words)
    assert "the metadata version is 2 now" in command.done(*words, "--raise")
    until(lambda: "the metadata version is 2 already" in command.done(*words, "--raise"))
    until(lambda: [row["version"] for row in command.rows(*words)] == [2, 2])
    until(lambda: "--raise" not in command.done(*words))


def test_single_broker_has_no_such_version(tmp_path: Path) -> None:
    """The command says why: the start of a single broker raises the version."""
    broker = BrokerProcess(tmp_path, {}, options=["--profile", "test"])
    try:
        finished = Command(broker.bootstrap_servers)("cluster", "metadata", "version")
    finally:
        broker.stop()
    assert finished.status == 1
    assert "The start of a single broker raises its version by itself" in finished.stderr
