"""Tests the properties of TLS and SASL, the start of Spark for a command, and which sessions write checkpoints through
klamm's file system."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkRuntimeError

import klamm.spark
from klamm.cli.errors import UsageError
from klamm.cli.pipeline import chosen_pipeline
from klamm.cli.pipeline.chosen_pipeline import Chosen, can_have_fast_checkpoints, choose_pipeline, session_for
from klamm.pipelines import Pipeline, PipelineError
from klamm.pipelines.run.place import Place

LABELS = ("PRIVATE KEY", "CERTIFICATE")
KEY = "spark.hadoop.fs.AbstractFileSystem.file.impl"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Py4JNetworkError("Error while sending or receiving"), "Error while sending or receiving"),
        (
            Py4JError(
                "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
                ": org.apache.spark.SparkException: Could not parse Master URL: 'nonsense'\n\tat org.apache.spark…"
            ),
            "Could not parse Master URL: 'nonsense'",
        ),
        (PySparkRuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited"), "Java gateway process exited"),
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused"),
    ],
)
def test_spark_that_does_not_start(monkeypatch: pytest.MonkeyPatch, error: Exception, text: str) -> None:
    """An error at the start of Spark, such as the end of its JVM or a wrong master, is a sentence."""

    def session(*arguments: object, **conf: object) -> None:
        raise error

    monkeypatch.setattr(klamm.spark, "session", session)
    pipeline = Pipeline("flights")
    place = Place.at("flights", bootstrap_servers="kafka:9092", checkpoints="/checkpoints")

    with pytest.raises(PipelineError) as raised:
        session_for(argparse.Namespace(master=None), Chosen(pipeline, [], place))

    assert str(raised.value).startswith("Spark does not start: ")
    assert text in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.fixture(autouse=True)
def jar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chosen_pipeline, "is_built", lambda: True)


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2]", "local[2,4]"])
def test_on_this_machine(master: str) -> None:
    """A session whose JVM is on this machine has them."""
    assert can_have_fast_checkpoints(master, {}, {})


@pytest.mark.parametrize("master", ["local-cluster[2,1,1024]", "spark://master:7077", "yarn"])
def test_on_a_cluster(master: str) -> None:
    """Other machines may not have the jar."""
    assert not can_have_fast_checkpoints(master, {}, {})


def test_under_spark_submit() -> None:
    """The JVM of spark-submit runs already, and its class path can't be changed."""
    assert not can_have_fast_checkpoints("local[*]", {}, {"spark.master": "local[*]"})


def test_with_a_file_system_of_the_user() -> None:
    """The setting of the pipeline counts."""
    assert not can_have_fast_checkpoints("local[*]", {KEY: "org.apache.hadoop.fs.local.LocalFs"}, {})


def test_without_the_jar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the jar the run needs no other setting: it is only slower."""
    monkeypatch.setattr(chosen_pipeline, "is_built", lambda: False)
    assert not can_have_fast_checkpoints("local[*]", {}, {})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Returns the file of a pipeline."""
    file = tmp_path / "flights_with_tls.py"
    file.write_text(
        "from klamm.pipelines import Pipeline, to_topic, topic\n"
        'pipeline = Pipeline("flights")\n'
        'pipeline.flow(source=topic("flights"), sink=to_topic("late"), name="late")(lambda flights: flights)\n',
        encoding="utf-8",
    )
    return file


def chosen_with(file: Path, **properties: str) -> Chosen:
    """Returns what a command works on with these properties; an underscore in a name stands for a dot."""
    return choose_pipeline(
        argparse.Namespace(
            file=str(file),
            flows=[],
            bootstrap_server="kafka:9092",
            checkpoints=None,
            env=None,
            environment=None,
            properties=[(key.replace("_", "."), text) for key, text in properties.items()],
        )
    )


def test_properties_of_tls_and_sasl_are_options_of_source_and_sink(file: Path, tmp_path: Path) -> None:
    """librdkafka's properties become the keys of Kafka's Java client: the files of key and certificate become texts,
    and user and password a line for JAAS."""
    key, certificate = ("-----BEGIN %s-----\nMC4=\n-----END %s-----" % (2 * (label,)) for label in LABELS)
    store = tmp_path / "client.pem"
    store.write_text(f"{key}\n{certificate}\n", encoding="ascii")

    assert chosen_with(file).place.kafka_options == {"kafka.bootstrap.servers": "kafka:9092"}
    assert chosen_with(
        file,
        security_protocol="ssl",
        ssl_ca_location="/authority.pem",
        ssl_certificate_location=str(store),
        ssl_key_location=str(store),
        ssl_key_password="secret",
    ).place.kafka_options == {
        "kafka.bootstrap.servers": "kafka:9092",
        "kafka.security.protocol": "SSL",
        "kafka.ssl.ca.location": "/authority.pem",
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.key": key,
        "kafka.ssl.keystore.certificate.chain": certificate,
        "kafka.ssl.key.password": "secret",
    }
    assert chosen_with(
        file, security_protocol="SASL_SSL", sasl_mechanisms="PLAIN", sasl_username="alice", sasl_password='a "b"'
    ).place.client_options == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": r'PlainLoginModule required username="alice" password="a \"b\"";',
    }


def test_other_properties_are_refused(file: Path) -> None:
    """A property that has no meaning for source and sink is refused with advice, and one that klamm's client does not
    support with its name."""
    with pytest.raises(UsageError, match=r"^fetch\.wait\.max\.ms: .* Use the argument options of topic\(\)"):
        chosen_with(file, security_protocol="SSL", fetch_wait_max_ms="5")
    with pytest.raises(UsageError, match=r"^-X: ssl\.crl\.location: klamm's client has nothing like it"):
        chosen_with(file, security_protocol="SSL", ssl_crl_location="/revoked.pem")
