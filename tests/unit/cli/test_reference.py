"""Tests that docs/reference/command-line.md documents every command, option, column and format token."""

from __future__ import annotations

import argparse
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

from klamm.cli.cluster.cluster_describe import BROKER_COLUMNS
from klamm.cli.cluster.cluster_elect import ELECTION_COLUMNS
from klamm.cli.cluster.cluster_reassign import MOVE_COLUMNS
from klamm.cli.cluster.cluster_status import COLUMNS as CLUSTER_COLUMNS
from klamm.cli.cluster.move_batches import PLAN_COLUMNS
from klamm.cli.context.command import COLUMNS as CONTEXT_COLUMNS
from klamm.cli.env.env_compare import COLUMNS as ENVIRONMENT_COLUMNS
from klamm.cli.group.command import MEMBER_COLUMNS, OFFSET_COLUMNS
from klamm.cli.group.group_clone import COLUMNS as CLONE_COLUMNS
from klamm.cli.main import COMMANDS
from klamm.cli.pipeline.pipeline_backfill import RANGE_COLUMNS
from klamm.cli.pipeline.pipeline_check import CHECK_COLUMNS
from klamm.cli.pipeline.pipeline_status import STATUS_COLUMNS
from klamm.cli.records.record_format import TOKENS
from klamm.cli.topic.topic_describe import CONFIG_COLUMNS, PARTITION_COLUMNS, REPLICA_COLUMNS
from klamm.cli.txn import DESCRIBE_COLUMNS, HANGING_COLUMNS, LIST_COLUMNS
from klamm.cli.worker_status import STATUS_COLUMNS as WORKER_COLUMNS

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
SHARED = {"-h", "--help", "-b", "--bootstrap-server", "--context", "--full-id", "-X", "-o", "--output"}


def _sections() -> dict[str, str]:
    """Returns the text below each heading that names a command."""
    parts = re.split(r"^#{2,3} (klamm \w+(?: [a-z-]+)?)\b.*$", PAGE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _parsers() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yields every command and every verb with its parser."""
    for noun, (module, _) in COMMANDS.items():
        parser = argparse.ArgumentParser(prog=f"klamm {noun}")
        importlib.import_module(module).configure(parser)
        verbs = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
        if not verbs:
            yield f"klamm {noun}", parser
        for verb, subparser in (verbs[0].choices if verbs else {}).items():
            yield f"klamm {noun} {verb}", subparser


def test_every_command_and_option_is_told() -> None:
    """Each option is documented in the section of its command; shared options are documented once.

    Options without help are for processes that a command starts.
    """
    sections = _sections()
    for name, parser in _parsers():
        assert name in sections, name
        for action in parser._actions:
            if action.help is argparse.SUPPRESS:
                continue
            told = PAGE if set(action.option_strings) & SHARED else sections[name]
            for option in action.option_strings:
                assert re.search(rf"`{re.escape(option)}\b", told) or option in {"-h", "--help"}, (name, option)
            for choice in action.choices or ():
                assert str(choice) in told, (name, choice)


def test_every_format_token_and_column_is_told() -> None:
    """Format tokens and columns are documented, because they are part of the interface."""
    for token in TOKENS:
        assert f"| `%{token}` |" in PAGE
    of_groups = (*OFFSET_COLUMNS, *MEMBER_COLUMNS, *ENVIRONMENT_COLUMNS, *CLONE_COLUMNS)
    of_transactions = (*LIST_COLUMNS, *HANGING_COLUMNS, *DESCRIBE_COLUMNS)
    for column in (
        *of_groups,
        *of_transactions,
        *WORKER_COLUMNS,
        *CLUSTER_COLUMNS,
        *BROKER_COLUMNS,
        *ELECTION_COLUMNS,
        *MOVE_COLUMNS,
        *PARTITION_COLUMNS,
        *REPLICA_COLUMNS,
        *CONFIG_COLUMNS,
        *PLAN_COLUMNS,
        *CONTEXT_COLUMNS,
        *CHECK_COLUMNS,
        *STATUS_COLUMNS,
        *RANGE_COLUMNS,
    ):
        assert f"`{column}`" in PAGE
