"""Tests reads and writes through TLS and SASL against Apache Kafka, with the options of Spark's own source and sink."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient
from tests.support.secure_kafka import PASSWORD, SecureKafka, secure_kafka
from tests.support.spark_topics import Topic, create_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    """Runs a broker with listeners for TLS and SASL."""
    with secure_kafka(tmp_path_factory.mktemp("certificates")) as running:
        yield running


@pytest.fixture
def secure_topic(kafka: SecureKafka) -> Topic:
    """Creates a topic on the secure broker, with three partitions and a record in each."""
    admin = AdminClient({"bootstrap.servers": kafka.broker.bootstrap_servers})
    topic = create_topic(admin, kafka.broker.bootstrap_servers, f"secure-{uuid.uuid4().hex[:12]}", 3, {})
    for partition in range(3):
        topic.produce([f"record {partition}"], partition)
    return topic


def _options(topic: Topic, client: dict[str, str]) -> dict[str, str]:
    return {"subscribe": topic.name, **{f"kafka.{key}": value for key, value in client.items()}}


def test_a_batch_through_sasl_and_tls(spark: SparkSession, kafka: SecureKafka, secure_topic: Topic) -> None:
    """A batch read connects through SASL and TLS, both in the planning process and in the workers."""
    options = _options(secure_topic, kafka.sasl_options("SASL_TLS", "SCRAM-SHA-512"))
    frame = spark.read.format("klamm").options(**options).load()

    rows = frame.selectExpr("string(value)").collect()

    assert sorted(row[0] for row in rows) == ["record 0", "record 1", "record 2"]


def test_a_stream_that_is_known_by_its_certificate(
    spark: SparkSession, kafka: SecureKafka, secure_topic: Topic, tmp_path: Path
) -> None:
    """A stream authenticates with a client certificate, and commits to its group through the same listener."""
    group = f"group-{uuid.uuid4().hex[:12]}"
    client = kafka.client_options("MUTUAL") | {"group.id": group}
    options = _options(secure_topic, client) | {"startingOffsets": "earliest"}
    query = (
        spark.readStream.format("klamm")
        .options(**options)
        .load()
        .selectExpr("string(value)")
        .writeStream.format("parquet")
        .option("path", str(tmp_path / "out"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)

    assert sorted(row[0] for row in spark.read.parquet(str(tmp_path / "out")).collect()) == [
        "record 0",
        "record 1",
        "record 2",
    ]
    assert secure_topic.committed(group) == [1, 1, 1]


def test_a_wrong_password_ends_the_query(spark: SparkSession, kafka: SecureKafka, secure_topic: Topic) -> None:
    """A wrong password ends a query with the broker's error code, and the message contains no password."""
    from pyspark.errors import PySparkException

    options = _options(secure_topic, kafka.sasl_options("SASL_TLS", "SCRAM-SHA-256", "a wrong guess"))

    with pytest.raises(PySparkException, match="SASL_AUTHENTICATION_FAILED") as refused:
        spark.read.format("klamm").options(**options).load().collect()
    assert "wrong guess" not in str(refused.value)
    assert PASSWORD not in str(refused.value)


@pytest.mark.parametrize("listener", ["TLS", "MUTUAL", "SASL_TLS", "SASL"])
def test_the_options_are_those_of_sparks_connector(
    spark: SparkSession, connector: str, kafka: SecureKafka, secure_topic: Topic, listener: str
) -> None:
    """On every listener, klamm reads with exactly the connector's options, and both refuse wrong credentials."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    keys = {
        "TLS": kafka.options("TLS"),
        "MUTUAL": kafka.client_options("MUTUAL"),
        "SASL_TLS": kafka.sasl_options("SASL_TLS", "SCRAM-SHA-256"),
        "SASL": kafka.sasl_options("SASL", "PLAIN"),
    }[listener]
    without = {
        "TLS": keys | {"ssl.truststore.location": str(kafka.other_authority.certificate)},
        "MUTUAL": kafka.options("MUTUAL"),
        "SASL_TLS": kafka.sasl_options("SASL_TLS", "SCRAM-SHA-256", "a wrong guess"),
        "SASL": kafka.sasl_options("SASL", "PLAIN", "a wrong guess"),
    }[listener]

    def rows(source: str, client: dict[str, str]) -> list[Row]:
        options = {"fetchOffset.numRetries": "1", **_options(secure_topic, client)}
        return sorted(spark.read.format(source).options(**options).load().collect(), key=lambda row: row.partition)

    assert rows("klamm", keys) == rows(connector, keys)
    for source, words in ((connector, "SSL|[Aa]uthentication"), ("klamm", "certificate|SASL_AUTHENTICATION_FAILED")):
        with pytest.raises((PySparkException, Py4JJavaError), match=words):
            rows(source, without)


def _written(frame: DataFrame, source: str, topic: Topic, client: dict[str, str]) -> None:
    # Only consumers have the option `default.api.timeout.ms`.
    of_producers = {f"kafka.{key}": value for key, value in client.items() if key != "default.api.timeout.ms"}
    frame.write.format(source).mode("append").options(**of_producers, topic=topic.name).save()


@pytest.mark.parametrize("listener", ["MUTUAL", "SASL_TLS"])
def test_a_writer_takes_the_options_of_sparks_connector(
    spark: SparkSession, connector: str, kafka: SecureKafka, secure_topic: Topic, listener: str
) -> None:
    """klamm's sink writes with exactly the security options of Spark's connector."""
    keys = {"MUTUAL": kafka.client_options("MUTUAL"), "SASL_TLS": kafka.sasl_options("SASL_TLS", "SCRAM-SHA-512")}
    frame = spark.range(10).selectExpr("string(id) key", "string(id) value")

    for source in (connector, "klamm"):
        _written(frame, source, secure_topic, keys[listener])

    written = [record.key for record in itertools.chain(*secure_topic.records()) if record.key is not None]
    assert sorted(written) == sorted(2 * [str(number).encode() for number in range(10)])


@pytest.mark.parametrize("listener", ["MUTUAL", "SASL_TLS"])
def test_an_exactly_once_query_through_tls(
    spark: SparkSession, kafka: SecureKafka, secure_topic: Topic, tmp_path: Path, listener: str
) -> None:
    """The driver's transactions and its reads of the marker go through TLS and SASL as well."""
    keys = {"MUTUAL": kafka.client_options("MUTUAL"), "SASL_TLS": kafka.sasl_options("SASL_TLS", "SCRAM-SHA-512")}
    client = {key: value for key, value in keys[listener].items() if key != "default.api.timeout.ms"}
    lines = tmp_path / "lines"
    lines.mkdir()
    for number in range(2):
        (lines / f"{number}.txt").write_text(f"line {number}")
    rows = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(lines))
    query = (
        rows.writeStream.format("klamm")
        .options(**{f"kafka.{key}": value for key, value in client.items()})
        .options(**{"topic": secure_topic.name, "klamm.sink.semantics": "exactly-once"})
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    written = [record.value for record in itertools.chain(*secure_topic.records())]
    assert sorted(value for value in written if value and value.startswith(b"line")) == [b"line 0", b"line 1"]


def test_a_wrong_password_ends_a_write(spark: SparkSession, kafka: SecureKafka, secure_topic: Topic) -> None:
    """A wrong password ends a write with the broker's error code, without a traceback and without the password."""
    frame = spark.range(1).selectExpr("string(id) value")

    with pytest.raises(Exception, match="SASL_AUTHENTICATION_FAILED") as refused:
        _written(frame, "klamm", secure_topic, kafka.sasl_options("SASL_TLS", "SCRAM-SHA-256", "a wrong guess"))
    assert "Traceback" not in str(refused.value)
    assert "wrong guess" not in str(refused.value)
    assert PASSWORD not in str(refused.value)
