"""`klamm group watch`, with real members, with and without a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path

from tests.integration.cli.conftest import KLAMM, PATIENCE_S, Command

from klamm.testing import Broker


def _until_said(process: subprocess.Popen[bytes], *wanted: str) -> None:
    """Reads lines until each of the texts has appeared in a line, in any order."""
    assert process.stdout is not None
    missing = set(wanted)
    while missing:
        line = process.stdout.readline().decode()
        print(line, end="")  # shows the output if the test fails
        assert line, missing
        missing = {text for text in missing if text not in line}


def _wait_for_owner(klamm: Command, group: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        finished = klamm("group", "describe", group, "-m", "-o", "tsv")
        if finished.status == 0 and "-0, " in finished.stdout:
            return
    raise AssertionError(finished)


def test_without_a_terminal_each_change_is_a_line(klamm: Command, topic: str, group: str) -> None:
    """Without a terminal each change is a line: members that join and leave, moved partitions, and the broker's reason
    at the end."""
    klamm.start("consume", topic, "-g", group, "-X", "client.id=first", "-X", "group.protocol=consumer")
    _wait_for_owner(klamm, group)
    watching = klamm.start("group", "watch", group, "--interval", "200ms")
    _until_said(watching, f"group {group}: consumer, ")
    second = klamm.start("consume", topic, "-g", group, "-X", "client.id=second", "-X", "group.protocol=consumer")
    _until_said(watching, "second has come from 127.0.0.1", ": member second joined; moved ")
    second.send_signal(signal.SIGINT)
    _until_said(watching, "second is gone", ": member second left; moved ")
    watching.send_signal(signal.SIGINT)
    assert watching.wait(PATIENCE_S) == 0


def test_on_a_terminal_it_is_one_screen(klamm: Command, topic: str, group: str) -> None:
    """On a terminal the command shows one screen; Ctrl-C ends it and restores the terminal."""
    klamm.done("produce", topic, "-p", "1", stdin="a\nb\n")
    klamm.start("consume", topic, "-g", group, "-X", "client.id=reader")
    _wait_for_owner(klamm, group)
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    process = subprocess.Popen(
        [KLAMM, "group", "watch", group],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=klamm.environment | {"TERM": "xterm-256color"},
        start_new_session=True,
    )
    os.close(terminal)
    try:
        shown = _read_until(controller, f"{topic}-2")
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
        shown += _read_until(controller, "\x1b[?1049l")
    finally:
        process.kill()
        process.wait()
        os.close(controller)
    screen = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)
    assert f"group {group}  classic  stable  range  1 member" in screen
    assert re.search(rf"{topic}-1 +reader +(none|2) +2 +(none|0)", screen)
    assert "Traceback" not in screen


def _read_until(controller: int, wanted: str) -> str:
    """Returns the terminal output up to and including a text."""
    shown = ""
    deadline = time.monotonic() + PATIENCE_S
    poll = select.poll()
    poll.register(controller, select.POLLIN)
    while wanted not in shown:
        assert time.monotonic() < deadline, shown
        if poll.poll(1000):
            try:
                shown += os.read(controller, 65_536).decode(errors="replace")
            except OSError:  # Linux raises EIO when the other end is closed
                break
    return shown


def test_wrong_use_is_told(klamm: Command, group: str) -> None:
    """An unknown group and a too short interval are errors."""
    finished = klamm("group", "watch", group)
    assert (finished.status, finished.stdout) == (1, "")
    assert finished.stderr == f"klamm group: there is no group {group}; `klamm group list` shows the groups\n"
    finished = klamm("group", "watch", group, "--interval", "1ms")
    assert finished.status == 2
    assert "looks every 100ms at most" in finished.stderr


def test_it_goes_on_when_the_broker_comes_back(tmp_path: Path) -> None:
    """The command reports a cluster that does not answer, and continues when the cluster answers again."""
    with Broker(tmp_path) as broker:
        klamm = Command(broker.bootstrap_servers)
        try:
            klamm.done("topic", "create", "orders")
            klamm.done("produce", "orders", stdin="a\n")
            klamm.done("consume", "orders", "-g", "billing", "-e")
            watching = klamm.start("group", "watch", "billing", "-i", "200ms")
            _until_said(watching, "group billing: classic, empty, 0 members, lag 0")
            broker.stop()
            _until_said(watching, "gave up to describe group 'billing'")
            broker.start()
            _until_said(watching, "the cluster answers again")
            assert watching.poll() is None
        finally:
            klamm.end()
