"""The `klamm` command: finds a command's module, and turns errors into one line and an exit status.

Exit status: 0 done, 1 failed, 2 wrong use, 130 interrupted. Only the module of the given command is imported. So `klamm
serve` starts without a Kafka client, and `klamm --version` without any of these modules.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Final

from klamm._version import __version__
from klamm.cli.errors import UsageError
from klamm.cli.parser import Parser
from klamm.cli.standard_output import OutputFailed, discard_output, prepare_output
from klamm.errors import KlammError

__all__ = ["main"]

COMMANDS: Final = {
    "serve": ("klamm.cli.serve", "run a broker"),
    "cluster": (
        "klamm.cli.cluster.command",
        "start a cluster on this machine; look at any cluster, move its partitions",
    ),
    "topic": ("klamm.cli.topic.command", "create, list, describe, alter and delete topics, and show their skew"),
    "produce": ("klamm.cli.records.produce", "write records to a topic"),
    "consume": ("klamm.cli.records.consume", "read records from topics"),
    "group": ("klamm.cli.group.command", "list, describe, explain, watch, reset, clone and delete consumer groups"),
    "worker": ("klamm.cli.worker_status", "show what workers have in flight, and what holds up their commits"),
    "txn": ("klamm.cli.txn", "list, describe and abort transactions"),
    "env": ("klamm.cli.env.command", "compare a group across environments"),
    "pipeline": ("klamm.cli.pipeline.command", "check, run, watch and stop pipelines on Spark"),
    "log": ("klamm.cli.log.command", "look into logs and files, mend them, move them from and to Apache Kafka"),
    "context": ("klamm.cli.context.command", "name clusters and environments, and choose among them"),
}
"""Each module offers `configure(parser)`, and `run(arguments) -> int`."""

_READ_VARIABLES: Final = frozenset({"KLAMM_BOOTSTRAP_SERVER", "KLAMM_CONFIG", "KLAMM_CONTEXT", "KLAMM_PURE_PYTHON"})
"""The environment variables that commands read."""
DONE, FAILED, WRONG_USE, INTERRUPTED = 0, 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command line and returns its exit status."""
    prepare_output()
    words = list(sys.argv[1:] if arguments is None else arguments)
    noun = next((word for word in words if not word.startswith("-")), None)
    status = DONE
    try:
        try:
            status = _run(words, noun)
        except KeyboardInterrupt:
            status = INTERRUPTED
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        discard_output()  # the reader closed the pipe
    except OutputFailed as error:
        discard_output()
        print(f"klamm {noun}: {error}" if noun in COMMANDS else f"klamm: {error}", file=sys.stderr)
        return FAILED
    return status


def _run(words: Sequence[str], noun: str | None) -> int:
    """Parses the words, runs the command, and returns its exit status.

    Raises OutputFailed, BrokenPipeError and KeyboardInterrupt.
    """
    parsed = _parse(words, noun)
    if parsed is None:
        return DONE
    if parsed.command != "serve":  # the broker logs this warning itself
        _warn_of_unknown_variables()
    try:
        _refuse_empty_names(parsed)
        if "reaches_cluster" in parsed:
            importlib.import_module("klamm.cli.context.target").settle(parsed, os.environ)
        return int(importlib.import_module(COMMANDS[parsed.command][0]).run(parsed))
    except KlammError as error:
        print(f"klamm {parsed.command}: {error}", file=sys.stderr)
        return WRONG_USE if isinstance(error, UsageError) else FAILED


def _parse(words: Sequence[str], noun: str | None) -> argparse.Namespace | None:
    """Imports the module of the command, and returns the parsed command line; None after the help, if there is no word.

    Ends the process for a wrong command line, and for --help and --version.
    """
    parser = Parser(prog="klamm", description="A Kafka-compatible event log, and what you need around it.")
    parser.add_argument("--version", action="version", version=f"klamm {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, (module_name, summary) in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=summary, description=f"klamm {name}: {summary}.")
        if name == noun:
            importlib.import_module(module_name).configure(subparser)
    if not words:
        parser.print_help()
        return None
    parsed = parser.parse_whole(words)
    if parsed.command is None:
        parser.error("a command is needed")
    return parsed


def _warn_of_unknown_variables() -> None:
    if all(name in _READ_VARIABLES for name in os.environ if name.startswith("KLAMM_")):
        return  # the usual case: skip the import of the table of all keys
    from klamm.config.environment import unknown_variables

    for unknown in unknown_variables(os.environ):
        print(f"klamm: the environment variable {unknown} stands for nothing and is ignored", file=sys.stderr)


def _refuse_empty_names(parsed: argparse.Namespace) -> None:
    """Raises UsageError for the empty name of a topic or a group: a variable of a shell that is not set."""
    for name in ("topic", "topics", "group", "groups", "source", "target"):
        value = getattr(parsed, name, None)
        if value == "" or (isinstance(value, list) and "" in value):
            raise UsageError(f"{name.removesuffix('s')}: the name is empty")
