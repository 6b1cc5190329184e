"""`klamm log`: replay a group coordinator's log; dump, verify and repair files; move from and to Apache Kafka."""

from __future__ import annotations

import argparse
import re
from argparse import ArgumentTypeError
from collections.abc import Callable
from pathlib import Path
from typing import Final

from klamm.cli.arguments import listen_address
from klamm.cli.cluster_options import add_cluster_options
from klamm.errors import KlammError
from klamm.protocol.internal_topic_names import OFFSETS_TOPIC

__all__ = ["configure", "coordinator_partition", "run"]


class FileProblem(KlammError):
    """An operation on a file failed."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the subcommands of `klamm log`."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    replay = verbs.add_parser("replay", help="show what a group coordinator's log says, record by record")
    replay.add_argument(
        "partition",
        type=coordinator_partition,
        metavar=f"{OFFSETS_TOPIC}-N",
        help="a partition of the topic that group coordinators keep their state in",
    )
    replay.add_argument("--to", type=int, metavar="OFFSET", help="stop behind the record at that offset")
    replay.add_argument("--group", help="show only this group's records")
    replay.add_argument("--json", action="store_true", help="one JSON object a line, at last a summary")
    add_cluster_options(replay, names_groups=True)
    _configure_dump(verbs.add_parser("dump", help="print what is in the files of a data directory"))
    _configure_verify(verbs.add_parser("verify", help="look for damage in a data directory, and mend it if asked"))
    importing = verbs.add_parser("import-kafka", help="take over a data directory of Apache Kafka 4.x")
    importing.add_argument("directory", type=Path, metavar="DIR", help="its data directory (one of log.dirs)")
    importing.add_argument("--dry-run", action="store_true", help="only say what would come of it")
    exporting = verbs.add_parser("export-kafka", help="hand a data directory to Apache Kafka 4.x")
    exporting.add_argument("directory", type=Path, metavar="DIR", help="the data directory")
    exporting.add_argument("--dry-run", action="store_true", help="only say what would come of it")
    exporting.add_argument(
        "--controller",
        type=_host_and_port,
        default=("localhost", 9093),
        metavar="HOST:PORT",
        help="where Kafka's controller will listen (default localhost:9093)",
    )


def _configure_dump(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", type=Path, nargs="+", metavar="FILE|DIR", help="a file, a partition, a data directory")
    parser.add_argument("--records", action="store_true", help="open the batches and print their records")
    parser.add_argument("--from", type=int, default=0, dest="start", metavar="OFFSET", help="begin with that offset")
    parser.add_argument("--to", type=int, default=None, dest="end", metavar="OFFSET", help="end behind that offset")
    parser.add_argument(
        "--decode",
        choices=("auto", "none", "offsets", "transactions", "share", "metadata", "history"),
        default="auto",
        help="what the records are (default auto: as the name of the folder says)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def _configure_verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="DIR", help="a data directory, or the folder of a partition")
    parser.add_argument(
        "--repair",
        action="store_true",
        help="cut torn tails off, and put what is damaged aside; never while a broker runs",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def run(arguments: argparse.Namespace) -> int:
    """Runs one verb.

    Raises KlammError if the cluster refuses a request, or if files are missing or malformed.
    """
    try:
        return _VERBS[arguments.verb](arguments)
    except BrokenPipeError:
        raise  # `main` handles a closed output pipe
    except OSError as error:
        # The error is about one of the data files, and its text names the file.
        raise FileProblem(str(error)) from error


def _replay(arguments: argparse.Namespace) -> int:
    from klamm.cli.log.log_replay import replay

    return replay(arguments)


def _dump(arguments: argparse.Namespace) -> int:
    from klamm.cli.log.log_dump import dump

    return dump(arguments)


def _verify(arguments: argparse.Namespace) -> int:
    from klamm.cli.log.log_verify import verify

    return verify(arguments)


def _import_kafka(arguments: argparse.Namespace) -> int:
    from klamm.cli.log.log_import import import_kafka

    return import_kafka(arguments)


def _export_kafka(arguments: argparse.Namespace) -> int:
    from klamm.cli.log.log_export import export

    return export(arguments)


_VERBS: Final[dict[str, Callable[[argparse.Namespace], int]]] = {
    "replay": _replay,
    "dump": _dump,
    "verify": _verify,
    "import-kafka": _import_kafka,
    "export-kafka": _export_kafka,
}


def coordinator_partition(text: str) -> int:
    """Returns the N of `__consumer_offsets-N`."""
    match = re.fullmatch(rf"{OFFSETS_TOPIC}-(\d+)", text)
    if match is None:
        raise ArgumentTypeError(f"takes {OFFSETS_TOPIC}-N, a partition that a group coordinator leads, not {text!r}")
    return int(match[1])


def _host_and_port(text: str) -> tuple[str, int]:
    """Returns host and port of HOST:PORT, neither of which may be missing."""
    host, _, port = listen_address(text).rpartition(":")
    if not host or not int(port):
        raise ArgumentTypeError(f"takes HOST:PORT, not {text!r}")
    return host.strip("[]"), int(port)
