"""Tests pipelines on a cluster that only takes connections through TLS, with SASL or a client certificate."""

from __future__ import annotations

import argparse
import json
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient
from tests.spark.pipelines.test_pipeline_commands import Commands
from tests.support.secure_kafka import KEY_PASSWORD, PASSWORD, SecureKafka, secure_kafka
from tests.support.spark_topics import Record, Topic, create_topic

from klamm.cli.pipeline.chosen_pipeline import Chosen, choose_pipeline
from klamm.cli.pipeline.pipeline_backfill import border
from klamm.pipelines.run.backfill.backfill_plan import plan_backfill
from klamm.pipelines.run.backfill.backfill_record import Arguments
from klamm.pipelines.run.backfill.backfill_target import parse_target
from klamm.pipelines.run.backfill.flow_backfill import FlowBackfill
from klamm.pipelines.run.dead_letter_replay import replay_flow
from klamm.pipelines.run.flow_check import check_flow
from klamm.pipelines.run.pipeline_run import PipelineRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.java, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    """Runs a broker with listeners for TLS and SASL."""
    with secure_kafka(tmp_path_factory.mktemp("certificates")) as running:
        yield running


@pytest.fixture
def commands(kafka: SecureKafka, tmp_path: Path) -> Iterator[Commands]:
    """Returns the commands for a pipeline that reads a fresh topic with four numbers and a bad record. The pipeline has
    the topic's name, because all tests have one broker."""
    admin = AdminClient({"bootstrap.servers": kafka.broker.bootstrap_servers})
    topic = create_topic(admin, kafka.broker.bootstrap_servers, f"secure-{uuid.uuid4().hex[:12]}", 1, {})
    topic.produce([*(json.dumps({"number": number}) for number in range(4)), "no JSON"])
    found = Commands(tmp_path, topic)
    found.file.write_text(found.file.read_text().replace('Pipeline("numbers"', f'Pipeline("{topic.name}"'))
    yield found
    found.kill()


def properties(kafka: SecureKafka, listener: str) -> dict[str, str]:
    """Returns librdkafka's properties for the listener, as a user gives them to the commands."""
    with_authority = {"ssl.ca.location": str(kafka.authority.certificate)}
    if listener == "SASL_TLS":
        user = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "alice", "sasl.password": PASSWORD}
        return {"security.protocol": "SASL_SSL", **with_authority, **user}
    store = str(kafka.client_store)
    certificate = {"ssl.certificate.location": store, "ssl.key.location": store, "ssl.key.password": KEY_PASSWORD}
    return {"security.protocol": "SSL", **with_authority, **certificate}


def test_a_run_with_a_password(commands: Commands, kafka: SecureKafka) -> None:
    """`klamm pipeline run` with properties of TLS and SASL reads, creates the topics, and writes good records and dead
    letters through them. No file of the flow has the password."""
    words = [word for key, text in properties(kafka, "SASL_TLS").items() for word in ("-X", f"{key}={text}")]

    running = commands.start("--once", "-b", kafka.broker.addresses["SASL_TLS"], *words)

    assert commands.status_of(running) == 0, (commands.folder / "run.err").read_text()
    assert sorted(commands.written()) == [0, 2]
    flow = f"test.{commands.topic.name}.even"
    assert [record.value for record in written(commands, f"{flow}.dead-letters")] == [b"no JSON"]
    assert commands.topic.committed(flow, 1) == [5]
    files = [file for file in (commands.folder / "klamm-pipelines").rglob("*") if file.is_file()]
    assert not [file for file in files if PASSWORD.encode() in file.read_bytes()]


def test_a_wrong_password_fails_the_flow(spark: SparkSession, commands: Commands, kafka: SecureKafka) -> None:
    """The flow fails, and its message names the cause and not the password."""
    commands.file.write_text(commands.file.read_text().replace("conf=", "max_restarts=0, conf="))
    chosen = chosen_with(commands, kafka, "SASL_TLS", **{"sasl.password": "a wrong guess"})
    run = PipelineRun(spark, chosen.pipeline, chosen.place, chosen.flows, once=True)

    assert not run.run()

    assert "SASL_AUTHENTICATION_FAILED" in (run.flows[0].message or "")
    told = [run.flows[0].message or "", *(file.read_text() for file in commands.folder.rglob("error.txt"))]
    assert not [text for text in told if "wrong guess" in text]


def test_check_replay_and_backfill_with_a_certificate(
    spark: SparkSession, commands: Commands, kafka: SecureKafka
) -> None:
    """What else a pipeline does goes through TLS as well: the check, a run, a replay of the dead letters, and a
    backfill into a topic."""
    chosen = chosen_with(commands, kafka, "MUTUAL")
    place, flow = chosen.place, chosen.pipeline.flows["even"]

    check = check_flow(spark, place, flow)
    assert (check.problems, check.sources[0].to_read) == ([], 5)
    assert PipelineRun(spark, chosen.pipeline, place, [flow], once=True).run()
    replayed = PipelineRun(spark, chosen.pipeline, place, [replay_flow(place, flow)], once=True)
    assert replayed.run()
    assert replayed.flows[0].status().figures.records == 1
    into = f"topic:{commands.topic.name}-again"
    arguments, borders = Arguments("earliest", None, into, None), (border("--from", "earliest"), None)
    plan = plan_backfill(place, chosen.pipeline, flow, parse_target(into), arguments, borders=borders, appends=False)
    outcome = FlowBackfill(spark, place, flow, plan).run(lambda step: None)

    assert (outcome.counts.records, outcome.counts.bad_records, outcome.counts.rows) == (5, 1, 2)
    again = [record.value for record in written(commands, f"{commands.topic.name}-again")]
    assert Counter(again) == Counter([b'{"number":0}', b'{"number":2}'])
    assert sorted(commands.written()) == [0, 2]


def chosen_with(commands: Commands, kafka: SecureKafka, listener: str, **more: str) -> Chosen:
    """Returns what the commands work on, with the properties for the listener, and more."""
    given = {**properties(kafka, listener), **more}
    return choose_pipeline(
        argparse.Namespace(
            file=str(commands.file),
            flows=[],
            bootstrap_server=kafka.broker.addresses[listener],
            checkpoints=str(commands.folder / "klamm-pipelines"),
            env="test",
            environment=None,
            properties=list(given.items()),
        )
    )


def written(commands: Commands, topic: str) -> list[Record]:
    """Returns the committed records of a topic with one partition."""
    return Topic(topic, commands.topic.bootstrap_servers, commands.topic.admin).records(1)[0]
