"""`klamm env compare`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.cli.conftest import Command

from klamm.testing import Broker


@pytest.fixture
def read(klamm: Command, topic: str, group: str) -> str:
    """Creates a topic that prod has read completely; dev has read two records of partition 0."""
    klamm.done("produce", topic, "-p", "0", stdin="a\nb\nc\nd\n")
    klamm.done("produce", topic, "-p", "1", stdin="e\n")
    klamm.done("consume", topic, "-g", f"prod.{group}", "-e")
    klamm.done("group", "reset", f"dev.{group}", "-t", f"{topic}:0", "--to-offset", "2", "--execute")
    return topic


@pytest.fixture
def contexts(klamm: Command, tmp_path: Path) -> Command:
    """Returns the command with contexts for dev and prod."""
    klamm.environment["KLAMM_CONFIG"] = str(tmp_path / "contexts.toml")
    address = klamm.environment.pop("KLAMM_BOOTSTRAP_SERVER")
    for name in ("dev", "prod"):
        klamm.done("context", "add", name, "-b", address, "--environment", name)
    klamm.environment["KLAMM_CONTEXT"] = "prod"
    return klamm


def test_environments_are_found_by_the_ids_of_groups(klamm: Command, read: str, group: str) -> None:
    """Without contexts, `klamm env compare` finds the environments by the group ids on the cluster."""
    rows = klamm.rows("env", "compare", group)
    shown = [(row["partition"], row["environment"], row["committed"], row["lag"], row["behind"]) for row in rows]
    assert shown == [(0, "dev", 2, 2, 2), (0, "prod", 4, 0, 0), (1, "dev", None, None, None), (1, "prod", 1, 0, 0)]
    assert {row["group"] for row in rows} == {f"dev.{group}", f"prod.{group}"}
    assert [row["last_commit"] is None for row in rows] == [False, False, True, False]


def test_they_stand_side_by_side(klamm: Command, read: str, group: str) -> None:
    """Up to three environments are shown next to each other, with the sums below."""
    lines = [line.split() for line in klamm.done("env", "compare", group).splitlines()]
    assert lines[:4] == [
        ["TOPIC", "PARTITION", "dev", "LAG", "BEHIND", "prod", "LAG", "BEHIND"],
        [read, "0", "2", "2", "2", "4", "0", "0"],
        [read, "1", "none", "none", "none", "1", "0", "0"],
        [],
    ]
    uncommitted = ["lag", "≥", "2", "(1", "partition", "uncommitted),"]
    assert lines[4][:12] == ["dev", f"dev.{group}", *uncommitted, "2", "records", "behind,", "last"]
    assert lines[5][:5] == ["prod", f"prod.{group}", "lag", "0,", "last"]


def test_contexts_name_environments_too(contexts: Command, read: str, group: str) -> None:
    """The comparison includes environments of contexts that have no such group yet; a group id with an environment
    means the same group."""
    contexts.done("context", "add", "stage", "-b", _address(contexts), "--environment", "stage")
    rows = contexts.rows("env", "compare", group)
    assert [row["environment"] for row in rows[:3]] == ["dev", "prod", "stage"]
    assert contexts.rows("env", "compare", f"dev.{group}") == rows
    assert f"stage.{group}  has committed nothing" in contexts.done("env", "compare", group)


@pytest.fixture
def other_broker() -> Iterator[Broker]:
    """Runs a broker of another cluster."""
    with Broker() as running:
        yield running


def test_each_environment_is_asked_on_its_own_cluster(
    contexts: Command, other_broker: Broker, read: str, group: str
) -> None:
    """Each environment is read from its own cluster, and offsets of different clusters are not compared. A cluster that
    can't be reached does not hide the others."""
    far = other_broker.bootstrap_servers
    contexts.done("context", "add", "far", "-b", far, "--environment", "far")
    contexts.done("topic", "create", read, "-p", "1", "-b", far)
    contexts.done("produce", read, "-b", far, stdin="a\nb\n")
    contexts.done("consume", read, "-g", f"far.{group}", "-b", far, "-e")
    rows = contexts.rows("env", "compare", group)
    assert [(row["environment"], row["committed"], row["behind"]) for row in rows if row["partition"] == 0] == [
        ("dev", 2, 2),
        ("far", 2, 0),
        ("prod", 4, 0),
    ]
    head = contexts.done("env", "compare", group).splitlines()[0].split()
    assert head == ["TOPIC", "PARTITION", "dev", "LAG", "BEHIND", "far", "LAG", "prod", "LAG", "BEHIND"]
    contexts.done("context", "add", "gone", "-b", "127.0.0.1:1", "--environment", "gone")
    finished = contexts("env", "compare", group)
    assert finished.status == 1
    assert finished.stderr.startswith("klamm env: gone: no answer from 127.0.0.1:1 (context gone)")
    assert len(finished.stdout.splitlines()) == 7


def test_more_than_three_have_a_line_each(klamm: Command, read: str, group: str) -> None:
    """More than three environments get one line each, because they do not fit next to each other."""
    for name in ("stage", "test"):
        klamm.done("group", "clone", f"dev.{group}", f"{name}.{group}", "--execute")
    lines = [line.split() for line in klamm.done("env", "compare", group).splitlines()]
    assert lines[0] == ["TOPIC", "PARTITION", "ENVIRONMENT", "COMMITTED", "LAG", "BEHIND"]
    assert [line[2] for line in lines[1:5]] == ["dev", "prod", "stage", "test"]


def test_where_there_is_none_it_says_what_an_environment_is(klamm: Command, group: str) -> None:
    """Without environments the command fails and explains how to create one."""
    finished = klamm("env", "compare", group)
    assert (finished.status, finished.stdout) == (1, "")
    assert "`klamm context add NAME --environment NAME ...`" in finished.stderr
    assert f"has no group <environment>.{group}" in finished.stderr


def _address(klamm: Command) -> str:
    shown = {row["key"]: row["value"] for row in klamm.rows("context", "show")}
    return str(shown["bootstrap_server"])


def test_a_chosen_cluster_that_is_gone_does_not_hide_the_others(contexts: Command, read: str, group: str) -> None:
    """The current context may be the one whose cluster can't be reached."""
    contexts.done("context", "add", "gone", "-b", "127.0.0.1:1", "--environment", "gone")
    finished = contexts("env", "compare", group, "--context", "gone")
    assert finished.status == 1
    assert finished.stderr.startswith("klamm env: gone: no answer from 127.0.0.1:1 (context gone)")
    assert finished.stdout.split()[:9] == ["TOPIC", "PARTITION", "dev", "LAG", "BEHIND", "prod", "LAG", "BEHIND", read]
