"""What holds for all suites: who may run beside whom, and who gets a second try.

The tests run in processes side by side (`make test`). Those of one file stay together, as do all that share the one
Spark session.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

pytest_plugins = ["pytester"]  # tests/unit/testing runs pytest to test klamm's plugin

_TESTS: Final = Path(__file__).parent
_WITH_OTHER_PROCESSES: Final = frozenset({"interop", "faults", "spark"})


# First: pytest-xdist reads the groups in a hook of its own, and what it doesn't find there it deals out test by test.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Real clients and JVMs have timeouts of their own, and a busy machine may stop any of them for seconds.

    So a test with such processes is tried once more before it counts as failed; the closing lines tell which were.
    """
    for item in items:
        path = item.path.relative_to(_TESTS) if item.path.is_relative_to(_TESTS) else item.path
        suite = path.parts[0]
        item.add_marker(pytest.mark.xdist_group(suite if suite == "spark" else path.as_posix()))
        if suite in _WITH_OTHER_PROCESSES and item.get_closest_marker("flaky") is None:
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Shows why a first try failed: one in five hundred rounds may be the one that tells something."""
    for report in terminalreporter.stats.get("rerun", []):
        terminalreporter.section(f"first try of {report.nodeid}")
        terminalreporter.write_line(report.longreprtext)
