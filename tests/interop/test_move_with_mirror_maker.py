"""Topics and groups move from a cluster of klamm to Apache Kafka with MirrorMaker 2, while both run."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from tests.support.kafka_broker import ApacheKafka, KafkaUnavailable, end_with_parent
from tests.support.share_of_gate import is_in_share_of_gate
from tests.support.short_lived_java import remembered_classpath
from tests.support.toolchains import toolchain_is_missing

from klamm.testing import Cluster

PAGE: Final = Path(__file__).parents[2] / "docs" / "how-to" / "move-to-a-kafka-cluster.md"
POM: Final = Path(__file__).parent / "mirror_maker" / "pom.xml"
TOPIC, GROUP, PARTITIONS = "orders", "billing", 3
PATIENCE_S: Final = 120


def _classpath() -> str:
    def ask_maven(output: Path) -> None:
        command = ["mvn", "-q", "-B", "-f", str(POM), "dependency:build-classpath", f"-Dmdep.outputFile={output}"]
        for attempt in ([*command, "-o"], command):
            if subprocess.run(attempt, capture_output=True, check=False).returncode == 0:
                return
        toolchain_is_missing("java", "Maven has not found MirrorMaker's jars")

    return remembered_classpath(POM, ask_maven)


def _properties(klamm: str, kafka: str) -> str:
    """Returns the page's properties with the addresses of the test, one replica on Kafka, and short intervals."""
    match = re.search(r"```properties\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert match is not None
    text = match[1]
    text = re.sub(r"klamm\.bootstrap\.servers = .*", f"klamm.bootstrap.servers = {klamm}", text)
    text = re.sub(r"kafka\.bootstrap\.servers = .*", f"kafka.bootstrap.servers = {kafka}", text)
    text = re.sub(r"(?m)^((?!offset-syncs).*replication\.factor) = 3", r"\1 = 1", text)
    return re.sub(r"interval\.seconds = \d+", "interval.seconds = 1", text)


@contextmanager
def _mirror_maker(folder: Path, properties: str) -> Iterator[Path]:
    (folder / "mirror.properties").write_text(properties, encoding="utf-8")
    output = folder / "mirror.out"
    command = ["java", "-Xmx384M", "-XX:TieredStopAtLevel=1", "-cp", _classpath()]
    with output.open("wb") as stream:
        process = subprocess.Popen(
            [*command, "org.apache.kafka.connect.mirror.MirrorMaker", str(folder / "mirror.properties")],
            stdout=stream,
            stderr=subprocess.STDOUT,
            preexec_fn=end_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509 - see there
        )
    try:
        yield output
    finally:
        process.kill()
        process.wait()


def _produce(servers: str, values: range) -> None:
    # The leader of a new partition may refuse the first batches. An idempotent producer keeps the order nevertheless.
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 0})
    for value in values:
        producer.produce(TOPIC, str(value), str(value % 7))
    assert producer.flush(PATIENCE_S) == 0


def _consume(servers: str, count: int) -> list[int]:
    """Reads that many records as a member of the group, and commits them."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe([TOPIC])
    values: list[int] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(values) < count and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            value = message.value()
            assert value is not None
            values.append(int(value))
    consumer.commit(asynchronous=False)
    consumer.close()
    return values


def _end_offsets(admin: AdminClient) -> int:
    wanted = {TopicPartition(TOPIC, each): OffsetSpec.latest() for each in range(PARTITIONS)}
    return sum(future.result(30).offset for future in admin.list_offsets(wanted).values())


def _committed(admin: AdminClient) -> dict[int, int]:
    """Returns the group's offsets by partition."""
    (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP)]).values()
    return {each.partition: each.offset for each in future.result(30).topic_partitions if each.topic == TOPIC}


def _wait(is_true: Callable[[], bool], output: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            if is_true():
                return
        except Exception as error:  # the topic does not exist yet
            last: Exception | None = error
        else:
            last = None
        assert time.monotonic() < deadline, f"{last}\n{output.read_text(errors='replace')[-3000:]}"
        time.sleep(0.3)


@pytest.mark.timeout(600)
@pytest.mark.skipif(not is_in_share_of_gate("MirrorMaker", 3), reason="the gate runs it for a third of the commits")
def test_a_topic_and_a_group_move_to_kafka(tmp_path: Path) -> None:
    """The settings of the page copy all records in the order of their keys, also those that are written meanwhile, and
    the group goes on on Kafka: it misses no record."""
    try:
        kafka = ApacheKafka().__enter__()
    except KafkaUnavailable as error:
        toolchain_is_missing("java", str(error))
    config = {"min.insync.replicas": "2", "offsets.topic.num.partitions": "3"}
    try:
        with Cluster(3, replication_factor=3, config=config) as cluster:
            servers = cluster.bootstrap_servers
            own = AdminClient({"bootstrap.servers": servers, "log_level": 0})
            own.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result()
            _produce(servers, range(300))
            before = _consume(servers, 150)
            admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
            with _mirror_maker(tmp_path, _properties(servers, kafka.bootstrap_servers)) as output:
                _wait(lambda: _end_offsets(admin) == 300, output)
                _produce(servers, range(300, 900))
                # The group reads to the end, because MirrorMaker may have started to translate only after it had copied
                # all of this, and then it translates no offset from before.
                before += _consume(servers, 750)
                source = _committed(own)
                assert sum(source.values()) == 900
                # MirrorMaker may be behind by a hundred records in each partition.
                _wait(lambda: sum(_committed(admin).values()) >= 600, output)
                _produce(servers, range(900, 1200))
                _wait(lambda: _end_offsets(admin) == 1200, output)
            translated = _committed(admin)
            assert all(translated[each] <= source[each] for each in translated)
            after = _consume(kafka.bootstrap_servers, 1200 - sum(translated.values()))
    finally:
        kafka.stop()
    assert set(before) | set(after) == set(range(1200))
    for key in range(7):
        of_key = [value for value in after if value % 7 == key]
        assert of_key == sorted(of_key)
