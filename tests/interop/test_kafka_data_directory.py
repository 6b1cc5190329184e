"""Tests that data directories can move between Apache Kafka and klamm, and that the tools of both read the files of
both."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from confluent_kafka.cimpl import NewTopic
from tests.interop.broker_process import BrokerProcess
from tests.support.kafka_broker import ApacheKafka, KafkaUnavailable
from tests.support.ports import free_port
from tests.support.toolchains import toolchain_is_missing

from klamm.cli.main import main

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PATIENCE_S = 60
OPEN_FOR_MS = 20_000
INTERNAL = {"__consumer_offsets", "__transaction_state", "__group_history"}
_COMPLAINTS = re.compile(
    r"mismatch|Found \d|corrupt|Exception|not valid|invalid|isvalid: false|skipping", re.IGNORECASE
)


class Content(NamedTuple):
    """The content of a cluster that clients can read."""

    records: dict[tuple[str, int], list[tuple[int, bytes | None, bytes | None]]]
    committed: list[tuple[str, int, int]]
    settings: dict[str, str]


def _fill(bootstrap: str) -> None:
    """Creates topics with settings, one of them deleted and created again; writes records with every codec,
    transactions, a third of them aborted, and a group's commits."""
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def create(name: str, partitions: int, **config: str) -> None:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(PATIENCE_S)

    create("orders", 2, retention_ms="-1", max_message_bytes="2000000")
    create("compacted", 1, cleanup_policy="compact")
    create("paid", 2)
    create("again", 2)
    admin.delete_topics(["again"])["again"].result(PATIENCE_S)
    create("again.and.again", 1)
    for codec in CODECS:
        producer = Producer(
            {"bootstrap.servers": bootstrap, "compression.type": codec, "enable.idempotence": codec != "none"}
        )
        for number in range(20):
            producer.produce("orders", key=b"%d" % number, value=f"{codec} {number}" * 3, partition=number % 2)
            producer.produce("compacted", key=b"%d" % (number % 5), value=f"{codec} {number}")
        assert producer.flush(PATIENCE_S) == 0
    transactional = Producer({"bootstrap.servers": bootstrap, "transactional.id": "payments"})
    transactional.init_transactions(PATIENCE_S)
    for number in range(6):
        transactional.begin_transaction()
        for partition in range(2):
            transactional.produce("paid", value=b"payment %d" % number, partition=partition)
        assert transactional.flush(PATIENCE_S) == 0
        if number % 3 == 2:
            transactional.abort_transaction(PATIENCE_S)
        else:
            transactional.commit_transaction(PATIENCE_S)
    # The transaction stays open: no consumer may read its record, and the next coordinator aborts it after its timeout.
    create("open", 1)
    hanging = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": "hanging", "transaction.timeout.ms": OPEN_FOR_MS}
    )
    hanging.init_transactions(PATIENCE_S)
    hanging.begin_transaction()
    hanging.produce("open", value=b"never")
    assert hanging.flush(PATIENCE_S) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "billing"})
    consumer.commit(offsets=[TopicPartition("orders", 0, 7), TopicPartition("paid", 1, 3)], asynchronous=False)
    consumer.close()


def _content(bootstrap: str) -> Content:
    """Returns the records that read_committed consumers get, the group's committed offsets, and the settings of a
    topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = admin.list_topics(timeout=PATIENCE_S).topics
    records = {
        (topic, partition): _read(bootstrap, topic, partition)
        for topic, metadata in topics.items()
        for partition in metadata.partitions
        if topic not in INTERNAL
    }
    wish = ConsumerGroupTopicPartitions("billing")
    offsets = admin.list_consumer_group_offsets([wish])["billing"].result(PATIENCE_S).topic_partitions
    (described,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, "orders")]).values()
    settings = {name: entry.value for name, entry in described.result(PATIENCE_S).items() if entry.source == 1}
    return Content(records, sorted((each.topic, each.partition, each.offset) for each in offsets), settings)


def _read(bootstrap: str, topic: str, partition: int) -> list[tuple[int, bytes | None, bytes | None]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    found = []
    while (message := consumer.poll(PATIENCE_S)) is not None and message.error() is None:
        found.append((message.offset() or 0, message.key(), message.value()))
    assert message is not None, f"{topic}-{partition} has no end"
    consumer.close()
    return found


def _wait_for_the_end_of_the_open_transaction(bootstrap: str) -> None:
    """Waits until the abort marker of the open transaction is written after the transaction's only record."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "watcher",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition("open", 0, 0)])
    deadline = time.monotonic() + 2 * PATIENCE_S
    while time.monotonic() < deadline:
        message = consumer.poll(1)
        assert message is None or message.error() is not None, "a record of an open transaction was seen"
        (position,) = consumer.position([TopicPartition("open", 0)])
        if position.offset >= 2:
            consumer.close()
            return
    pytest.fail("the transaction was not aborted")


def _produces(bootstrap: str) -> int | None:
    """Writes one record with a new idempotent producer, and returns the offset of the record."""
    offsets: list[int | None] = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    producer.produce("orders", b"new", partition=0, on_delivery=lambda error, message: offsets.append(message.offset()))
    assert producer.flush(PATIENCE_S) == 0
    return offsets[0]


class Written(NamedTuple):
    """A data directory of a stopped broker, and the content that clients read from it before."""

    directory: Path
    content: Content

    def copy(self, folder: Path) -> Path:
        """Copies the directory to the place where a `BrokerProcess` of that folder expects it, so that a test may
        change it."""
        target = folder / "data"
        shutil.copytree(self.directory, target)
        return target


@pytest.fixture(scope="module")
def of_kafka(kafka_classpath: str, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """A data directory that Apache Kafka wrote."""
    try:
        with ApacheKafka() as kafka:
            _fill(kafka.bootstrap_servers)
            content = _content(kafka.bootstrap_servers)
            kafka.halt()
            target = tmp_path_factory.mktemp("of-kafka") / "data"
            shutil.copytree(kafka.data_directory, target)
    except KafkaUnavailable as error:
        toolchain_is_missing("java", str(error))
    return Written(target, content)


@pytest.fixture(scope="module")
def of_klamm(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """A data directory that klamm wrote."""
    folder = tmp_path_factory.mktemp("of-klamm")
    broker = BrokerProcess(folder, {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"})
    _fill(broker.bootstrap_servers)
    content = _content(broker.bootstrap_servers)
    broker.stop()
    return Written(broker.data_directory, content)


def _dump_with_kafka(classpath: str, *arguments: str) -> str:
    command = [
        "java",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        classpath,
        "org.apache.kafka.tools.DumpLogSegments",
        *arguments,
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr.replace("SLF4J: Failed to load class", "")


def _dump(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    assert main(["log", "dump", "--records", "--json", *words]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def _files(directory: Path, pattern: str) -> str:
    return ",".join(str(path) for path in sorted(directory.glob(pattern)))


def test_klamm_goes_on_where_kafka_stopped(
    of_kafka: Written, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """After an import from Kafka, klamm serves the same records, committed offsets and settings. klamm accepts records
    of a new producer, and aborts the open transaction."""
    directory = of_kafka.copy(tmp_path)
    assert main(["log", "import-kafka", str(directory)]) == 0
    assert "cluster klammtestAAAAAAAAAAAAA, 7 topics" in capsys.readouterr().out
    broker = BrokerProcess(tmp_path, {"node.id": "1"})
    try:
        assert _content(broker.bootstrap_servers) == of_kafka.content
        assert _produces(broker.bootstrap_servers) == 50
        _wait_for_the_end_of_the_open_transaction(broker.bootstrap_servers)
        broker.restart()
        assert len(_read(broker.bootstrap_servers, "orders", 0)) == 51
    finally:
        broker.stop()
    assert "-stray" not in broker.log()
    assert main(["log", "verify", str(directory)]) == 0


def test_kafka_goes_on_where_klamm_stopped_and_klamm_where_kafka_did(
    of_klamm: Written, kafka_classpath: str, tmp_path: Path
) -> None:
    """Kafka serves an exported data directory and writes to it; after an import, klamm serves the same content."""
    directory = of_klamm.copy(tmp_path)
    port = free_port()
    assert main(["log", "export-kafka", str(directory), "--controller", f"127.0.0.1:{port}"]) == 0
    try:
        with ApacheKafka(data_directory=directory, controller_port=port) as kafka:
            assert _content(kafka.bootstrap_servers) == of_klamm.content
            assert _produces(kafka.bootstrap_servers) == 50
            after = _content(kafka.bootstrap_servers)
            kafka.halt()
    except KafkaUnavailable as error:
        toolchain_is_missing("java", str(error))
    assert len(after.records["orders", 0]) == 51
    assert main(["log", "import-kafka", str(directory)]) == 0
    broker = BrokerProcess(tmp_path, {})
    try:
        assert _content(broker.bootstrap_servers) == after
    finally:
        broker.stop()


def test_a_directory_that_kafka_did_not_close_is_refused(
    of_kafka: Written, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The import refuses a directory without Kafka's clean shutdown file, because only Kafka knows how to recover
    it."""
    directory = of_kafka.copy(tmp_path)
    (directory / ".kafka_cleanshutdown").unlink()
    assert main(["log", "import-kafka", str(directory)]) == 1
    assert ".kafka_cleanshutdown is missing" in capsys.readouterr().err


def test_verify_finds_kafkas_files_sound(of_kafka: Written, capsys: pytest.CaptureFixture[str]) -> None:
    """`log verify` finds no error in Kafka's logs, indexes, transaction indexes, snapshots and checkpoints."""
    assert list(of_kafka.directory.glob("paid-0/*.txnindex"))
    assert main(["log", "verify", str(of_kafka.directory)]) == 0, capsys.readouterr().out


def test_both_tools_read_the_same_from_kafkas_files(
    of_kafka: Written, kafka_classpath: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`log dump` and Kafka's DumpLogSegments show the same records, aborted transactions and producer state."""
    for pattern in ("orders-1/*.log", "paid-0/*.log"):
        shown = _dump_with_kafka(
            kafka_classpath, "--deep-iteration", "--print-data-log", "--files", _files(of_kafka.directory, pattern)
        )
        theirs = re.findall(r"\| offset: (\d+) CreateTime: (\d+) .*?(?:payload: (.*)|endTxnMarker: (\w+).*)", shown)
        ours = [
            row for row in _dump(capsys, *_files(of_kafka.directory, pattern).split(",")) if row["type"] == "record"
        ]
        assert [
            (str(row["offset"]), str(row["timestamp_ms"]), row["name"].upper() if "name" in row else row["value"])
            for row in ours
        ] == [(offset, timestamp, payload or marker) for offset, timestamp, payload, marker in theirs]
    entries = _files(of_kafka.directory, "paid-0/*.txnindex") + "," + _files(of_kafka.directory, "paid-0/*.snapshot")
    shown = _dump_with_kafka(kafka_classpath, "--files", entries)
    rows = [row for row in _dump(capsys, *entries.split(",")) if row["type"] == "entry"]
    aborted = [row for row in rows if "last_stable_offset" in row]
    assert [(str(row["first_offset"]), str(row["last_offset"])) for row in aborted] == re.findall(
        r"firstOffset: (\d+) lastOffset: (\d+)", shown
    )
    assert len(aborted) == 2
    (producer,) = (row for row in rows if "last_sequence" in row)
    assert f"lastSequence: {producer['last_sequence']} lastOffset: {producer['last_offset']}" in shown


def test_kafkas_internal_topics_are_opened(of_kafka: Written, capsys: pytest.CaptureFixture[str]) -> None:
    """`log dump` decodes every record of Kafka's internal topics and of its metadata log, with snapshots."""
    names: dict[str, set[str]] = {}
    for folder in ("__consumer_offsets-0", "__transaction_state-0", "__cluster_metadata-0"):
        rows = [row for row in _dump(capsys, str(of_kafka.directory / folder)) if row["type"] == "record"]
        assert rows
        assert not [row for row in rows if row["complaint"]]
        names[folder] = {row["name"] for row in rows}
    assert "OffsetCommit" in names["__consumer_offsets-0"]
    assert names["__transaction_state-0"] == {"TransactionLog"}
    assert names["__cluster_metadata-0"] >= {"TopicRecord", "PartitionRecord", "VotersRecord", "LeaderChangeMessage"}


def test_kafkas_tool_reads_every_kind_of_file_that_klamm_writes(
    of_klamm: Written, kafka_classpath: str, tmp_path: Path
) -> None:
    """Kafka's DumpLogSegments reports no error in klamm's segments, indexes and producer snapshots, and in exported
    metadata."""
    directory = of_klamm.copy(tmp_path)
    deep = ("--deep-iteration", "--files")
    assert list(directory.glob("*/*.txnindex"))
    for option, pattern in (
        ("--print-data-log", "[a-z]*/*.log"),
        ("--offsets-decoder", "__consumer_offsets-*/*.log"),
        ("--transaction-log-decoder", "__transaction_state-*/*.log"),
    ):
        if _files(directory, pattern):
            shown = _dump_with_kafka(kafka_classpath, option, *deep, _files(directory, pattern))
            assert not _COMPLAINTS.search(shown), shown
    patterns = ("*/*.index", "*/*.timeindex", "*/*.txnindex", "*/*.snapshot")
    shown = _dump_with_kafka(kafka_classpath, "--files", ",".join(_files(directory, pattern) for pattern in patterns))
    assert not _COMPLAINTS.search(shown), shown
    assert main(["log", "export-kafka", str(directory)]) == 0
    files = f"{directory / 'bootstrap.checkpoint'},{_files(directory, '__cluster_metadata-0/*.checkpoint')}"
    shown = _dump_with_kafka(kafka_classpath, "--cluster-metadata-decoder", "--files", files)
    assert not _COMPLAINTS.search(shown), shown
    for part in ("TOPIC_RECORD", "PARTITION_RECORD", "CONFIG_RECORD", "PRODUCER_IDS_RECORD", "KRaftVoters"):
        assert part in shown
