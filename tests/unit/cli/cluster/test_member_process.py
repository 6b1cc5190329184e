"""Tests how processes are told apart, and what is shown of their logs."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from klamm.cli.cluster.member_process import ProcessIdentity, identify, tail


def test_a_reused_id_gets_no_signal() -> None:
    """The process with the recorded id is this test, which started later than the recorded one: no signal is sent."""
    identity = ProcessIdentity(os.getpid(), "before this test")
    assert not identity.is_running
    identity.send(signal.SIGKILL)


def test_the_right_process_gets_the_signal() -> None:
    """The process with the recorded id and start gets the signal."""
    received: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: received.append(number))
    try:
        identify(os.getpid()).send(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert received == [signal.SIGUSR1]


def test_an_identity_stays_the_same() -> None:
    """A later command finds the same start for the same process."""
    assert identify(os.getpid()) == identify(os.getpid())
    assert identify(os.getpid()).is_running


def test_the_last_lines_of_this_start_are_shown(tmp_path: Path) -> None:
    """Lines of earlier starts are not shown: they would name a reason that is no longer one."""
    log = tmp_path / "broker-1.log"
    assert tail(log, 0, 3) == ""
    log.write_bytes(b"old\n")
    begin = log.stat().st_size
    assert tail(log, begin, 3) == ""
    with log.open("ab") as stream:
        stream.write(b"one\ntwo \xff\nthree\n")
    assert tail(log, begin, 2) == "two \ufffd\nthree"
    assert tail(log, begin, 9) == "one\ntwo \ufffd\nthree"
    with log.open("ab") as stream:
        stream.write(b"x" * 1_000_000 + b"\nlast\n")
    assert tail(log, begin, 1) == "last"
