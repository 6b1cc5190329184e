"""Tests which cluster and which groups a command line selects."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import pytest

from klamm.cli.context.target import full_group_id, settle
from klamm.cli.errors import UsageError

CONTEXTS = """
current = "dev"
[contexts.dev]
bootstrap_server = "dev:9092"
environment = "dev"
[contexts.prod]
bootstrap_server = "prod:9092"
environment = "prod"
properties = { "client.id" = "somebody" }
[contexts.plain]
bootstrap_server = "plain:9092"
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Returns the environment variables of a user with three contexts, of which dev is the current one."""
    file = tmp_path / "contexts.toml"
    file.write_text(CONTEXTS)
    return {"KLAMM_CONFIG": str(file)}


def _settled(environ: Mapping[str, str], **given: object) -> argparse.Namespace:
    arguments = argparse.Namespace(
        **{"context": None, "bootstrap_server": None, "properties": [], "full_id": False, "group": "orders", **given}
    )
    settle(arguments, environ)
    return arguments


@pytest.mark.parametrize(
    ("given", "variables", "address", "group"),
    [
        ({}, {}, "dev:9092", "dev.orders"),
        ({}, {"KLAMM_CONTEXT": "prod"}, "prod:9092", "prod.orders"),
        ({}, {"KLAMM_CONTEXT": ""}, "dev:9092", "dev.orders"),
        ({}, {"KLAMM_BOOTSTRAP_SERVER": "other:9092"}, "other:9092", "orders"),
        ({}, {"KLAMM_CONTEXT": "prod", "KLAMM_BOOTSTRAP_SERVER": "other:9092"}, "other:9092", "prod.orders"),
        ({"context": "plain"}, {"KLAMM_CONTEXT": "prod"}, "plain:9092", "orders"),
        ({"context": "prod"}, {"KLAMM_BOOTSTRAP_SERVER": "other:9092"}, "prod:9092", "prod.orders"),
        ({"bootstrap_server": "mine:9092"}, {"KLAMM_CONTEXT": "prod"}, "mine:9092", "orders"),
        ({"context": "prod", "bootstrap_server": "mine:9092"}, {}, "mine:9092", "prod.orders"),
    ],
)
def test_options_go_before_variables_and_those_before_the_current_context(
    environ: dict[str, str], given: dict[str, object], variables: dict[str, str], address: str, group: str
) -> None:
    """Options override variables, variables override the current context, and the first source that names a cluster
    decides."""
    settled = _settled(environ | variables, **given)
    assert (settled.bootstrap_server, settled.group) == (address, group)


def test_without_contexts_it_is_the_default(tmp_path: Path) -> None:
    """Without a context file, the address is the default, and the missing file is no error."""
    settled = _settled({"KLAMM_CONFIG": str(tmp_path / "missing.toml")})
    assert (settled.bootstrap_server, settled.group, settled.context) == ("127.0.0.1:9092", "orders", None)


def test_the_contexts_properties_come_before_those_given(environ: dict[str, str]) -> None:
    """The context's properties come before the given ones, so that -X wins: the last value of a key counts."""
    settled = _settled(environ, context="prod", properties=[("client.id", "me")])
    assert settled.properties == [("client.id", "somebody"), ("client.id", "me")]


def test_a_full_id_stands_as_it_is(environ: dict[str, str]) -> None:
    """With --full-id, and for commands without a group, no environment is added to the group id."""
    assert _settled(environ, full_id=True).group == "orders"
    assert _settled(environ, group=None).group is None
    assert _settled(environ, groups=["a", "prod.b"]).groups == ["dev.a", "prod.b"]


@pytest.mark.parametrize(
    ("group", "environment", "full"),
    [
        ("orders", None, "orders"),
        ("orders", "prod", "prod.orders"),
        ("prod.orders", "prod", "prod.orders"),
        ("dev.orders", "prod", "dev.orders"),
        ("com.acme.orders", "prod", "prod.com.acme.orders"),
        ("prod", "prod", "prod.prod"),
        ("prod.", "prod", "prod.prod."),
        ("production.orders", "prod", "prod.production.orders"),
    ],
)
def test_an_id_that_begins_with_a_known_environment_is_full(group: str, environment: str | None, full: str) -> None:
    """A group id that starts with a known environment is complete; any other id gets the environment as a prefix."""
    assert full_group_id(group, environment, {"dev", "prod"}) == full


def test_a_context_that_is_not_there_is_told(environ: dict[str, str]) -> None:
    """An unknown context is an error that suggests a command, also if a variable names the context."""
    for given, variables in (({"context": "tests"}, {}), ({}, {"KLAMM_CONTEXT": "tests"})):
        with pytest.raises(UsageError, match="no context tests: `klamm context list`"):
            _settled(environ | variables, **given)


def test_a_file_that_can_not_be_read_is_told_only_when_it_is_needed(environ: dict[str, str]) -> None:
    """An unreadable context file is an error only if the file is needed; a command with an address needs no file."""
    Path(environ["KLAMM_CONFIG"]).write_text("current = ")
    with pytest.raises(UsageError, match="is no TOML"):
        _settled(environ)
    assert _settled(environ, bootstrap_server="mine:9092").bootstrap_server == "mine:9092"
