"""Chooses a command's cluster and environment from the options, the variables or the current context.

The first of these that is set decides alone: `--context` or `-b`; `KLAMM_CONTEXT` or `KLAMM_BOOTSTRAP_SERVER`; the
current context; 127.0.0.1:9092. An address without a context has no environment. If both are given, the command uses
the context's environment and properties at that address.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from klamm.cli.context.context_file import Context, ContextFileError, ContextFiles, context_paths
from klamm.cli.errors import UsageError

__all__ = [
    "BOOTSTRAP_VARIABLE",
    "CONTEXT_VARIABLE",
    "DEFAULT_BOOTSTRAP_SERVER",
    "Choice",
    "choose",
    "full_group_id",
    "gave_only_an_address",
    "settle",
]

DEFAULT_BOOTSTRAP_SERVER: Final = "127.0.0.1:9092"
BOOTSTRAP_VARIABLE: Final = "KLAMM_BOOTSTRAP_SERVER"
CONTEXT_VARIABLE: Final = "KLAMM_CONTEXT"


class Choice(NamedTuple):
    """A context, an address, or both; and the option or variable that chose them."""

    context: str | None
    bootstrap_server: str | None
    because: str


def choose(
    context: str | None, bootstrap_server: str | None, environ: Mapping[str, str], files: ContextFiles | None = None
) -> Choice:
    """Returns the cluster chosen by --context and --bootstrap-server, by the variables, or by the current context.

    Reads the files of contexts only if neither options nor variables decide.
    """
    if context or bootstrap_server:
        return Choice(context, bootstrap_server, "--context" if context else "--bootstrap-server")
    context, bootstrap_server = environ.get(CONTEXT_VARIABLE), environ.get(BOOTSTRAP_VARIABLE)
    if context or bootstrap_server:
        return Choice(context or None, bootstrap_server or None, CONTEXT_VARIABLE if context else BOOTSTRAP_VARIABLE)
    current = (files or ContextFiles(context_paths(environ))).current
    if current is not None:
        return Choice(current, None, "the current context")
    return Choice(None, DEFAULT_BOOTSTRAP_SERVER, "the default")


def settle(arguments: argparse.Namespace, environ: Mapping[str, str]) -> None:
    """Sets the address, the properties, the environment and full group ids where the options leave them open.

    Sets `chosen_by` to the option or variable that chose the cluster, "the current context" or "the default".

    Raises UsageError for a context that does not exist or a file of contexts that can't be read.
    """
    try:
        choice = choose(arguments.context, arguments.bootstrap_server, environ)
        files = ContextFiles(context_paths(environ)) if choice.context is not None else None
        context = files.get(choice.context) if files is not None and choice.context is not None else None
    except ContextFileError as error:
        raise UsageError(str(error)) from None
    arguments.chosen_by = choice.because
    arguments.context = context.name if context is not None else None
    arguments.environment = context.environment if context is not None else None
    arguments.bootstrap_server = choice.bootstrap_server or _address(context)
    if context is not None:
        arguments.properties = [*context.properties.items(), *arguments.properties]
    if (
        context is not None
        and context.environment is not None
        and files is not None
        and not getattr(arguments, "full_id", True)
    ):
        _complete(arguments, context.environment, files.environments)


def gave_only_an_address(arguments: argparse.Namespace) -> bool:
    """Returns whether an address chose the cluster, without a context."""
    return arguments.chosen_by in ("--bootstrap-server", BOOTSTRAP_VARIABLE)


def full_group_id(group: str, environment: str | None, known: Collection[str] = ()) -> str:
    """Returns `<environment>.<group>`; `group` itself without an environment, or if it begins with a known one."""
    if environment is None:
        return group
    head, dot, rest = group.partition(".")
    is_full = bool(dot) and bool(rest) and (head == environment or head in known)
    return group if is_full else f"{environment}.{group}"


def _complete(arguments: argparse.Namespace, environment: str, known: Collection[str]) -> None:
    if getattr(arguments, "group", None):
        arguments.group = full_group_id(arguments.group, environment, known)
    if getattr(arguments, "groups", None):
        arguments.groups = [full_group_id(group, environment, known) for group in arguments.groups]


def _address(context: Context | None) -> str:
    return context.bootstrap_server if context is not None else DEFAULT_BOOTSTRAP_SERVER
