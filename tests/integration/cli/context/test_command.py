"""`klamm context`, and its effect on the other commands."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.cli.conftest import Command


@pytest.fixture
def klamm(klamm: Command, tmp_path: Path) -> Command:
    """Returns the command with a file for contexts."""
    klamm.environment["KLAMM_CONFIG"] = str(tmp_path / "contexts.toml")
    return klamm


@pytest.fixture
def prod(klamm: Command) -> str:
    """Adds the contexts prod and dev, each with an environment of the same name; prod becomes the current one."""
    address = klamm.environment.pop("KLAMM_BOOTSTRAP_SERVER")
    klamm.done("context", "add", "prod", "--bootstrap-server", address, "--environment", "prod")
    klamm.done("context", "add", "dev", "--bootstrap-server", address, "--environment", "dev")
    klamm.done("context", "use", "prod")
    return "prod"


def test_contexts_are_listed_shown_and_removed(klamm: Command, prod: str, tmp_path: Path) -> None:
    """`klamm context list` marks the current context; a removed context can't be shown any more."""
    rows = klamm.rows("context", "list")
    assert [(row["context"], row["environment"], row["current"]) for row in rows] == [
        ("dev", "dev", False),
        ("prod", "prod", True),
    ]
    assert {row["file"] for row in rows} == {str(tmp_path / "contexts.toml")}
    table = klamm.done("context", "list").splitlines()
    assert table[0].split() == ["CURRENT", "CONTEXT", "BOOTSTRAP", "SERVER", "ENVIRONMENT", "FILE"]
    assert [line.startswith("*") for line in table[1:]] == [False, True]
    shown = {row["key"]: row["value"] for row in klamm.rows("context", "show")}
    assert (shown["context"], shown["environment"], shown["chosen_by"]) == ("prod", "prod", "the current context")
    assert "there is no current one now" in klamm.done("context", "remove", "prod")
    assert {row["key"]: row["value"] for row in klamm.rows("context", "show")}["context"] is None
    assert klamm("context", "show", "prod").status == 2


def test_where_there_are_none_it_says_how_to_make_one(klamm: Command) -> None:
    """Without contexts, `klamm context list` prints how to add one; with JSON output it prints an empty list."""
    assert "`klamm context add NAME" in klamm.done("context", "list")
    assert klamm.rows("context", "list") == []


def test_a_context_is_not_overwritten_by_chance(klamm: Command, prod: str) -> None:
    """`klamm context add` overwrites an existing context only with --replace."""
    refused = klamm("context", "add", "prod", "-b", "other:9092")
    assert (refused.status, refused.stdout) == (2, "")
    assert "--replace" in refused.stderr
    klamm.done("context", "add", "prod", "-b", "other:9092", "--replace")
    assert {row["key"]: row["value"] for row in klamm.rows("context", "show")}["bootstrap_server"] == "other:9092"


def test_secrets_are_not_shown(klamm: Command) -> None:
    """`klamm context show` hides secret properties and shows the others."""
    klamm.done("context", "add", "x", "-b", "a:1", "-X", "sasl.username=amalia", "-X", "sasl.password=geheim")
    shown = klamm.done("context", "show", "x")
    assert "amalia" in shown
    assert "geheim" not in shown


def test_use_says_what_goes_before_it(klamm: Command) -> None:
    """`klamm context use` warns about a set variable that takes precedence over the context."""
    klamm.done("context", "add", "prod", "-b", "a:1")
    finished = klamm("context", "use", "prod")
    assert finished.status == 0
    assert "$KLAMM_BOOTSTRAP_SERVER is set" in finished.stderr


def test_commands_reach_the_contexts_cluster_and_groups(klamm: Command, prod: str, topic: str, group: str) -> None:
    """Commands use the cluster and the environment of the current context, of --context or of KLAMM_CONTEXT; groups of
    other environments do not change."""
    klamm.done("produce", topic, "-p", "0", stdin="0\n1\n2\n")
    klamm.done("consume", topic, "--group", group, "-n", "1")
    klamm.done("consume", topic, "--group", group, "-n", "2", "--context", "dev")
    assert [row["committed"] for row in klamm.rows("group", "describe", group)] == [1, None, None]
    assert klamm.done("group", "describe", group).startswith(f"group prod.{group}: empty")
    klamm.environment["KLAMM_CONTEXT"] = "dev"
    assert [row["committed"] for row in klamm.rows("group", "describe", group)] == [2, None, None]
    listed = {row["group"] for row in klamm.rows("group", "list")}
    assert {f"dev.{group}", f"prod.{group}"} <= listed
    assert group not in listed
    assert klamm.done("group", "delete", group) == f"deleted group dev.{group}\n"
    assert klamm.done("group", "describe", f"prod.{group}").startswith(f"group prod.{group}: empty")
    missing = klamm("group", "describe", f"prod.{group}", "--full-id", "--context", "prod")
    assert missing.status == 0
    assert f"there is no group {group};" in klamm("group", "describe", group, "--full-id").stderr


def test_a_context_is_named_where_its_cluster_does_not_answer(klamm: Command) -> None:
    """The error for a cluster that does not answer names the context, so that the user notices a wrong context."""
    klamm.done("context", "add", "gone", "-b", "127.0.0.1:1")
    finished = klamm("topic", "list", "--context", "gone")
    assert finished.status == 1
    assert finished.stderr.startswith("klamm topic: no answer from 127.0.0.1:1 (context gone): ")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("use", "nowhere"), "there is no context nowhere"),
        (("remove", "nowhere"), "there is no context nowhere"),
        (("add", "a b", "-b", "x:1"), "'a b' is no name for a context"),
        (("add", "a", "-b", "x:1", "--environment", "a.b"), "'a.b' is no name for an environment"),
        (("add", "a"), "required: -b/--bootstrap-server"),
    ],
)
def test_wrong_use_is_told(klamm: Command, words: tuple[str, ...], complaint: str) -> None:
    """A wrong command line exits with status 2 and writes no file."""
    finished = klamm("context", *words)
    assert (finished.status, finished.stdout) == (2, "")
    assert complaint in finished.stderr
    assert not Path(klamm.environment["KLAMM_CONFIG"]).exists()
