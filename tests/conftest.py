"""Configures all test suites: which tests run in parallel, and what the closing lines report.

The tests run in parallel processes (`make test`). All tests of one file run in one process, and so do all tests that
share a Spark session. The slowest suites start first, so that none of them remains for the end.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings
from tests.support.examples import examples
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

pytest_plugins = ["pytester"]  # tests/integration/testing runs pytest to test klamm's plugin

_TESTS: Final = Path(__file__).parent
_LONGEST_FIRST: Final = ("spark", "checker", "hostile", "faults", "simulation", "interop", "scenarios", "integration")
# These files start their own Spark, so they run next to the tests that share one. They run one after another, because
# the start of Spark takes a whole processor.
_OWN_SPARK: Final = frozenset(
    {
        "test_driver_kills.py",
        "test_java.py",
        "test_local_cluster.py",
        "test_plain_session.py",
        "test_prepared_classes.py",
        "test_worker_daemon.py",
    }
)
_PIPELINES_IN_PROCESSES: Final = frozenset(
    {
        "test_backfill_commands.py",
        "test_declarative_pipelines.py",
        "test_pipeline_commands.py",
        "test_pipeline_kills.py",
        "test_pipelines_at_once.py",
        "test_table_formats.py",
        "test_tutorial.py",
    }
)
"""Files whose pipelines are processes with a Spark of their own; one after another, too."""
_NO_SPARK: Final = frozenset(
    {"test_open_transaction.py", "test_planning.py", "test_query_member.py", "test_shared_tasks.py"}
)
"""Files of tests/spark that need a broker, but no session."""
_SINK: Final = ("test_sink", "test_exactly_once")
"""The beginnings of the names of the files that share the second session."""


# The duration of an example depends on the load of the machine, not on the code. `CI` selects Hypothesis' profile "ci".
settings.register_profile(
    "any machine",
    settings.get_profile("ci" if os.environ.get("CI") else "default"),
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("any machine")


class _ByFile(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no annotations
    """A scheduler that assigns each test file to one process, and the Spark tests to five: those that start their own
    Spark, those of pipelines in processes of their own, those of the sink, of other pipelines, and the others. Each of
    the last three has one session that it shares.

    Marks (`--dist=loadgroup`) do not work: pytest-xdist 3.8 writes the marks to a place that pytest 9.2 does not read.
    """

    def _split_scope(self, nodeid: str) -> str:
        path = Path(nodeid.partition("::")[0])
        if "spark" not in path.parts[:2] or path.name in _NO_SPARK:
            return path.as_posix()
        if path.name in _OWN_SPARK:
            return "tests/spark, own"
        if path.name in _PIPELINES_IN_PROCESSES:
            return "tests/spark, pipelines in processes"
        if path.parent.name in {"decoders", "pipelines"}:
            return "tests/spark, pipelines"
        return "tests/spark, sink" if path.name.startswith(_SINK) else "tests/spark"


def pytest_configure() -> None:
    """Restores the handler for Ctrl-C, with which tests end commands: a shell disables it in background processes."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class _LastWords:
    """A plugin that reports the running tests when the run is ended from outside, for example by a time limit."""

    def __init__(self, reporter: pytest.TerminalReporter) -> None:
        self._reporter = reporter
        self._began: dict[str, float] = {}
        self._began_all = time.monotonic()
        signal.signal(signal.SIGTERM, self._say)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._began[nodeid] = time.monotonic()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._began.pop(nodeid, None)

    def _say(self, number: int, _frame: object) -> None:
        now = time.monotonic()
        self._reporter.write_line(f"\nended from outside after {now - self._began_all:.0f} s; running were:")
        for nodeid, began in self._began.items():
            self._reporter.write_line(f"  {nodeid}, for {now - began:.0f} s")
        self._reporter.flush()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Registers the report of running tests in the process that distributes the tests: it can always write output."""
    plugins = session.config.pluginmanager
    reporter = plugins.get_plugin("terminalreporter")
    if reporter is not None and plugins.hasplugin("dsession"):
        plugins.register(_LastWords(reporter))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Returns the scheduler that decides which process runs which tests (a hook of pytest-xdist)."""
    return _ByFile(config, log)


@pytest.hookimpl(trylast=True)  # pytest-randomly has shuffled the files by then
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sorts the tests so that the slowest suites start first."""
    items.sort(key=lambda item: _rank(_suite(item)))


def _suite(item: pytest.Item) -> str:
    path = item.path.relative_to(_TESTS) if item.path.is_relative_to(_TESTS) else item.path
    return path.parts[0]


def _rank(suite: str) -> int:
    return _LONGEST_FIRST.index(suite) if suite in _LONGEST_FIRST else len(_LONGEST_FIRST)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Shows why the first try of a repeated test failed: a failure in one of five hundred runs may reveal a bug."""
    for report in terminalreporter.stats.get("rerun", []):
        terminalreporter.section(f"first try of {report.nodeid}")
        terminalreporter.write_line(report.longreprtext)
