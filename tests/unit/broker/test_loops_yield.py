"""Tests that every loop of work in steps yields in each pass.

A yield in an inner loop does not count for the outer loop, because the inner loop may be empty.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import klamm.broker

BROKER = Path(klamm.broker.__file__).parent
SHORT = {
    "handlers/list_config_resources.py": ["for kind in _ORDER"],  # the kinds of resources
    "partitions/wide_fetch.py": [
        "while self._observed"
    ],  # yields in normal operation; runs without a yield only when the work is stopped
    "handlers/write_txn_markers.py": ["for topic, index, code"],  # the partitions of a part
}


def loops_without_a_yield(function: ast.FunctionDef) -> Iterator[ast.For | ast.While]:
    """Yields the loops of a function that have no yield in their own body."""
    for node in ast.walk(function):
        if isinstance(node, (ast.For, ast.While)) and not any(map(yields, node.body)):
            yield node


def yields(node: ast.AST) -> bool:
    """Returns whether a statement yields outside of loops."""
    if isinstance(node, (ast.Yield, ast.YieldFrom)):
        return True
    if isinstance(node, (ast.For, ast.While, ast.FunctionDef, ast.Lambda)):
        return False
    return any(map(yields, ast.iter_child_nodes(node)))


def is_work(node: ast.AST) -> bool:
    """Returns whether a node is a function whose steps `broker/time_slices.py` runs."""
    return isinstance(node, ast.FunctionDef) and node.returns is not None and "Work[" in ast.unparse(node.returns)


@pytest.mark.parametrize(
    "path", [path for path in sorted(BROKER.rglob("*.py")) if "Work[" in path.read_text()], ids=lambda path: path.stem
)
def test_loops_yield(path: Path) -> None:
    """All loops yield, except those that are known to be short."""
    short = SHORT.get(path.relative_to(BROKER).as_posix(), [])
    for function in filter(is_work, ast.walk(ast.parse(path.read_text()))):
        assert isinstance(function, ast.FunctionDef)
        for loop in loops_without_a_yield(function):
            head = ast.unparse(loop).partition(":\n")[0].replace("(", "").replace(")", "")
            assert head.startswith(tuple(short)), f"{path.name}:{loop.lineno}: {head}"
