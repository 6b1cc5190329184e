"""`klamm topic`."""

from __future__ import annotations

import uuid

import pytest
from tests.integration.cli.conftest import Command


def test_a_topic_is_created_shown_and_deleted(klamm: Command) -> None:
    """A created topic is listed and described until it is deleted."""
    name = f"orders-{uuid.uuid4().hex}"
    assert klamm.done("topic", "create", name, "-p", "2") == f"created topic {name}\n"
    assert {"topic": name, "partitions": 2, "replication_factor": 1} in klamm.rows("topic", "list")
    described = klamm.rows("topic", "describe", name)
    metadata = [(row["partition"], row["leader"], row["replicas"], row["isr"]) for row in described]
    assert metadata == [(0, 1, "1", "1"), (1, 1, "1", "1")]
    assert klamm.done("topic", "delete", name) == f"deleted topic {name}\n"
    assert name not in {row["topic"] for row in klamm.rows("topic", "list")}


def test_the_broker_chooses_what_was_not_asked_for(klamm: Command) -> None:
    """Without -p and -r the broker's num.partitions and default.replication.factor apply."""
    name = f"orders-{uuid.uuid4().hex}"
    klamm.done("topic", "create", name)
    assert len(klamm.rows("topic", "describe", name)) == 1


def test_configurations_are_set_at_creation_and_altered(klamm: Command) -> None:
    """-c sets a configuration key, -d resets it to the default, and describe shows the source of each value."""
    name = f"orders-{uuid.uuid4().hex}"
    klamm.done("topic", "create", name, "-c", "retention.ms=1000", "-c", "cleanup.policy=compact")

    def setting(key: str) -> tuple[str, str]:
        rows = {row["key"]: row for row in klamm.rows("topic", "describe", name, "--configs")}
        return rows[key]["value"], rows[key]["source"]

    assert setting("retention.ms") == ("1000", "dynamic_topic_config")
    assert setting("cleanup.policy") == ("compact", "dynamic_topic_config")
    assert setting("segment.bytes") == ("1073741824", "default_config")
    klamm.done("topic", "alter", name, "-c", "retention.ms=2000", "-d", "cleanup.policy")
    assert setting("retention.ms") == ("2000", "dynamic_topic_config")
    assert setting("cleanup.policy") == ("delete", "default_config")


def test_partitions_are_added(klamm: Command, topic: str) -> None:
    """-p of alter sets the total number of partitions; a smaller number is refused."""
    klamm.done("topic", "alter", topic, "-p", "5")
    assert len(klamm.rows("topic", "describe", topic)) == 5
    refused = klamm("topic", "alter", topic, "-p", "2")
    assert (refused.status, refused.stdout) == (1, "")
    assert "INVALID_PARTITIONS" in refused.stderr


def test_internal_topics_are_shown_on_demand(klamm: Command, group: str, topic: str) -> None:
    """Kafka's internal topics are listed only with --all."""
    klamm.done("consume", topic, "-g", group, "-e")
    assert "__consumer_offsets" not in klamm.done("topic", "list")
    assert "__consumer_offsets" in klamm.done("topic", "list", "--all")


def test_three_outputs(klamm: Command, topic: str) -> None:
    """The output is a table by default, or TSV or JSON; with JSON, messages go to standard error."""
    heading = ["TOPIC", "PARTITIONS", "REPLICATION", "FACTOR"]
    assert klamm.done("topic", "list").splitlines()[0].split() == heading
    tsv = klamm.done("topic", "list", "-o", "tsv").splitlines()
    assert tsv[0] == "topic\tpartitions\treplication_factor"
    assert f"{topic}\t3\t1" in tsv
    assert {"topic": topic, "partitions": 3, "replication_factor": 1} in klamm.rows("topic", "list")
    deleted = klamm("topic", "delete", topic, "-o", "json")
    assert (deleted.status, deleted.stdout, deleted.stderr) == (0, "", f"deleted topic {topic}\n")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("create", "a topic"), "INVALID_TOPIC_EXCEPTION"),
        (("create", "many", "-r", "3"), "INVALID_REPLICATION_FACTOR"),
        (("create", "odd", "-c", "segment.bytes=none"), "INVALID_CONFIG"),
        (("describe", "missing"), "there is no topic missing; `klamm topic list --all` shows"),
        (("describe", "missing", "--configs"), "UNKNOWN_TOPIC_OR_PARTITION"),
        (("alter", "missing", "-p", "2"), "; `klamm topic list --all` shows the topics"),
        (("alter", "missing", "-c", "retention.ms=1"), "; `klamm topic list --all` shows the topics"),
        (("delete", "missing"), "; `klamm topic list --all` shows the topics"),
    ],
)
def test_what_the_cluster_refuses_is_said_in_one_line(klamm: Command, words: tuple[str, ...], complaint: str) -> None:
    """A refusal shows Kafka's error code and message in one line, with exit status 1."""
    refused = klamm("topic", *words)
    assert (refused.status, refused.stdout) == (1, "")
    assert refused.stderr.startswith("klamm topic: ")
    assert complaint in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_a_topic_that_exists_is_not_created_again(klamm: Command, topic: str) -> None:
    """Creating an existing topic is refused and does not change the topic."""
    refused = klamm("topic", "create", topic, "-p", "9")
    assert (refused.status, refused.stdout) == (1, "")
    assert "TOPIC_ALREADY_EXISTS" in refused.stderr
    assert len(klamm.rows("topic", "describe", topic)) == 3


def test_looking_at_a_topic_does_not_create_it(klamm: Command, group: str) -> None:
    """On a broker that creates topics automatically, only `klamm produce` creates one."""
    name = f"missing-{uuid.uuid4().hex}"
    for words in (
        ("topic", "describe", name),
        ("consume", name, "-e"),
        ("consume", name, "-g", group, "-e"),
        ("group", "reset", group, "-t", name, "--to-earliest", "--execute"),
    ):
        assert klamm(*words).status == 1
    assert name not in klamm.done("topic", "list")
    klamm.done("produce", name, stdin="here\n")
    assert name in klamm.done("topic", "list")


def test_one_of_several_deletions_may_fail(klamm: Command, topic: str) -> None:
    """The result is shown for each topic, and one failure makes the exit status 1."""
    finished = klamm("topic", "delete", topic, "missing")
    assert finished.status == 1
    assert finished.stdout == f"deleted topic {topic}\n"
    assert finished.stderr.startswith("klamm topic: missing: UNKNOWN_TOPIC_OR_PARTITION")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("create",), "required: topic"),
        (("create", "one", "-p", "0"), "argument -p/--partitions: takes a number from 1 on, not '0'"),
        (("create", "one", "-c", "retention.ms"), "argument -c/--config: takes KEY=VALUE, not 'retention.ms'"),
        (("alter", "one"), "nothing to alter: give -p, -c or -d"),
        (("rename", "one"), "invalid choice: 'rename'"),
        ((), "required: VERB"),
        (("list", "-o", "xml"), "invalid choice: 'xml'"),
        (("list", "-X", "socket.timeout.ms"), "argument -X: takes KEY=VALUE"),
        (("list", "-X", "no.such=1"), 'No such configuration property: "no.such"'),
        (("list", "-X", "socket.timeout.ms=soon"), "socket.timeout.ms"),
    ],
)
def test_wrong_use_is_told_from_refusal(klamm: Command, words: tuple[str, ...], complaint: str) -> None:
    """A wrong command line exits with status 2."""
    finished = klamm("topic", *words)
    assert (finished.status, finished.stdout) == (2, "")
    assert complaint in finished.stderr
