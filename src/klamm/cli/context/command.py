"""`klamm context`: add, list, use, show, remove. No verb connects to a cluster."""

from __future__ import annotations

import argparse
import os
import re
import sys
from typing import Any, Final

from klamm.cli.arguments import key_value
from klamm.cli.context.context_file import Context, ContextFileError, ContextFiles, context_paths
from klamm.cli.context.target import BOOTSTRAP_VARIABLE, CONTEXT_VARIABLE, choose
from klamm.cli.errors import UsageError
from klamm.cli.output import add_output_option, say, show_rows

__all__ = ["COLUMNS", "configure", "run"]

COLUMNS: Final = ("current", "context", "bootstrap_server", "environment", "file")
_SECRET: Final = re.compile(r"password|secret|\.jaas\.|oauthbearer\.config|\.key\.pem|\.key$")
_HIDDEN: Final = "********"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the subcommands of `klamm context`."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)

    add = verbs.add_parser("add", help="give a cluster, or an environment on it, a name")
    add.add_argument("name")
    add.add_argument("-b", "--bootstrap-server", required=True, metavar="HOST:PORT[,...]", help="where the cluster is")
    add.add_argument("--environment", help="such as dev or prod: group ids that are given become <environment>.<group>")
    add.add_argument(
        "-X",
        action="append",
        type=key_value,
        default=[],
        dest="properties",
        metavar="KEY=VALUE",
        help="one of librdkafka's configuration properties, such as security.protocol=SSL; may be repeated",
    )
    add.add_argument("--replace", action="store_true", help="put it in the place of the context with this name")

    listing = verbs.add_parser("list", help="list contexts")

    use = verbs.add_parser("use", help="make a context the current one")
    use.add_argument("name")

    show = verbs.add_parser("show", help="show a context, or what is in effect now and why")
    show.add_argument("name", nargs="?")

    remove = verbs.add_parser("remove", help="forget a context; nothing happens to its cluster")
    remove.add_argument("name")

    for verb in (listing, show):
        add_output_option(verb)


def run(arguments: argparse.Namespace) -> int:
    """Runs one verb.

    Raises UsageError for unknown or malformed names, and for files that can't be read or written.
    """
    verbs = {"add": _add, "list": _list, "use": _use, "show": _show, "remove": _remove}
    try:
        return verbs[arguments.verb](arguments, ContextFiles(context_paths(os.environ)))
    except ContextFileError as error:
        raise UsageError(str(error)) from None


def _add(arguments: argparse.Namespace, files: ContextFiles) -> int:
    if arguments.name in files.contexts and not arguments.replace:
        raise UsageError(f"there is a context {arguments.name} already; --replace puts this one in its place")
    context = Context(arguments.name, arguments.bootstrap_server, arguments.environment, dict(arguments.properties))
    path = files.put(context)
    print(f"context {arguments.name} is in {path}; `klamm context use {arguments.name}` makes it the current one")
    return 0


def _list(arguments: argparse.Namespace, files: ContextFiles) -> int:
    is_table = arguments.output == "table"
    rows = []
    for name, context in files.contexts.items():
        is_current = name == files.current
        rows.append(
            {
                "current": ("*" if is_current else "") if is_table else is_current,
                "context": name,
                "bootstrap_server": context.bootstrap_server,
                "environment": context.environment,
                "file": str(files.path_of(name)),
            }
        )
    if not rows:
        say(arguments, "there are no contexts yet; `klamm context add NAME --bootstrap-server HOST:PORT` makes one")
        if is_table:
            return 0
    show_rows(arguments, COLUMNS, rows)
    return 0


def _use(arguments: argparse.Namespace, files: ContextFiles) -> int:
    files.use(arguments.name)
    print(f"{_described(files.contexts[arguments.name])} is the current one")
    for variable in (CONTEXT_VARIABLE, BOOTSTRAP_VARIABLE):
        if os.environ.get(variable):
            print(f"klamm context: ${variable} is set and goes before it: unset {variable}", file=sys.stderr)
    return 0


def _show(arguments: argparse.Namespace, files: ContextFiles) -> int:
    name, server, because = choose(arguments.name, None, os.environ, files)
    context = files.get(name) if name is not None else None
    rows: list[dict[str, Any]] = [{"key": "context", "value": name}]
    rows.append({"key": "bootstrap_server", "value": server or (context.bootstrap_server if context else None)})
    rows.append({"key": "environment", "value": context.environment if context else None})
    if context is not None:
        rows += [
            {"key": key, "value": _HIDDEN if _SECRET.search(key) else value}
            for key, value in context.properties.items()
        ]
        rows.append({"key": "file", "value": str(files.path_of(context.name))})
    if arguments.name is None:
        rows.append({"key": "chosen_by", "value": because})
    show_rows(arguments, ("key", "value"), rows)
    return 0


def _remove(arguments: argparse.Namespace, files: ContextFiles) -> int:
    was_current = files.current == arguments.name
    path = files.remove(arguments.name)
    print(f"context {arguments.name} is removed from {path}" + (": there is no current one now" if was_current else ""))
    return 0


def _described(context: Context) -> str:
    environment = f", environment {context.environment}" if context.environment is not None else ""
    return f"context {context.name} ({context.bootstrap_server}{environment})"
