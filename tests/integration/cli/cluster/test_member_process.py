"""Starts processes that outlive a command, and finds them again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.integration.cli.conftest import PATIENCE_S

from klamm.cli.cluster import member_process
from klamm.cli.cluster.member_process import identify, spawn

SCRIPT = "import os; print(os.getpid() == os.getsid(0), os.environ['NAME'], flush=True); input()"


@pytest.fixture(params=["proc", "ps"])
def source(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Finds processes in /proc, or by `ps` as on macOS."""
    if request.param == "ps":
        if shutil.which("ps") is None:
            pytest.skip("ps is missing")
        monkeypatch.setattr(member_process, "_BOOT_ID", tmp_path / "missing")
    elif not os.path.exists("/proc/self/stat"):
        pytest.skip("/proc is missing")


@pytest.mark.usefixtures("source")
def test_a_process_is_told_apart_from_its_successors() -> None:
    """A process is found while it runs, and has the same identity each time. One that has ended is not found, even if
    its parent has not waited for it, so that its id is still taken."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    identity = identify(process.pid)
    assert identity.is_running
    assert identify(process.pid) == identity
    assert identity != identify(os.getpid())
    identity.send(signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE_S
    while identity.is_running:
        assert time.monotonic() < deadline
    assert not identify(process.pid).is_running
    process.communicate()
    identity.send(signal.SIGKILL)
    assert not identity.is_running


def test_a_started_process_has_a_session_and_a_log(tmp_path: Path) -> None:
    """The process leads a session of its own, so that a closed terminal does not end it. It has no input. Its output is
    appended to the log, behind that of earlier starts."""
    log = tmp_path / "member.log"
    for _ in range(2):
        process = spawn([sys.executable, "-c", SCRIPT], log, {**os.environ, "NAME": "etcd"})
        assert process.wait(PATIENCE_S) == 1
    lines = log.read_text().splitlines()
    assert lines.count("True etcd") == 2
    assert lines[-1].startswith("EOFError")
