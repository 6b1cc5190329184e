"""`klamm group explain`, with real members."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest
from tests.integration.cli.conftest import PATIENCE_S, Command

PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])


def _until(klamm: Command, words: tuple[str, ...], is_so: Callable[[str], bool]) -> list[str]:
    """Runs the command until its output meets the condition; returns the lines."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        finished = klamm(*words)
        if finished.status == 0 and is_so(finished.stdout):
            return [line.strip().removeprefix("· ") for line in finished.stdout.splitlines()]
    raise AssertionError(finished)


@PROTOCOLS
def test_a_real_group_explains_itself(klamm: Command, topic: str, group: str, protocol: str) -> None:
    """The command shows for each member its partitions, since when and why it has them, and which member is idle."""
    for number in range(4):
        words = ("-X", f"client.id=member-{number}", "-X", f"group.protocol={protocol}")
        klamm.start("consume", topic, "-g", group, *words)
    explain = ("group", "explain", group)
    # The broker writes the history after the change.
    wanted = (f"{protocol} protocol, stable", "stays idle", ": since ")
    lines = _until(klamm, explain, lambda text: [text.count(each) for each in wanted] == [1, 1, 3])
    assert lines[0] == f"group {group}"
    assert lines[1].endswith(", 4 members, 3 partitions")
    assert sum(line.startswith(f"has {topic}") for line in lines) == 3
    assert sum(line.startswith("stands by: all partitions are with others") for line in lines) == 1
    assert any(line.startswith("4 members, 3 partitions: one stays idle (member-") for line in lines)
    came = [line for line in lines if ": since " in line and " because " in line]
    assert len(came) == 3, lines
    assert any("member-" in line.partition("because")[2] for line in came)


def test_one_member_is_explained(klamm: Command, topic: str, group: str) -> None:
    """A single member is explained by its client id or by its member id."""
    klamm.start("consume", topic, "-g", group, "-X", "client.id=somebody")
    lines = _until(klamm, ("group", "explain", group, "somebody"), lambda text: f"has {topic}" in text)
    assert lines[0] == "somebody"
    assert lines[1] == f"has {topic} 0-2: 3 of 3 partitions"
    (member,) = klamm.rows("group", "describe", group, "-m")
    assert klamm.done("group", "explain", group, member["member"]).startswith("somebody\n")
    finished = klamm("group", "explain", group, "nobody")
    assert (finished.status, finished.stdout) == (1, "")
    assert finished.stderr == f"klamm group: group {group} has no member nobody; its members: somebody\n"


def test_a_group_without_members_is_explained(klamm: Command, topic: str, group: str) -> None:
    """A group without members is explained with its offsets and its lag."""
    klamm.done("produce", topic, "-p", "0", stdin="a\nb\n")
    klamm.done("consume", topic, "-g", group, "-n", "1")
    lines = [line.strip() for line in klamm.done("group", "explain", group).splitlines()]
    assert lines[1].startswith("· classic protocol, empty, generation ")
    assert "· lag 1, most of it in" in "\n".join(lines)


def test_a_rebalance_that_hangs_is_told_with_its_cause(klamm: Command, topic: str, group: str) -> None:
    """A hanging rebalance is shown with its cause; a joining member is not shown as idle."""
    stopped = klamm.start("consume", topic, "-g", group, "-X", "client.id=sleeper")
    explain = ("group", "explain", group)
    _until(klamm, explain, lambda text: f"has {topic}" in text)
    stopped.send_signal(signal.SIGSTOP)
    try:
        klamm.start("consume", topic, "-g", group, "-X", "client.id=newcomer")
        lines = _until(klamm, explain, lambda text: "preparing-rebalance" in text and "changing since" in text)
    finally:
        stopped.send_signal(signal.SIGCONT)
    (line,) = (line for line in lines if line.startswith("changing since"))
    assert "newcomer" in line.partition(", because ")[2], lines
    assert not any(line.startswith(("last change", "stands by")) or "stays idle" in line for line in lines), lines


def test_a_group_that_is_not_there_is_told(klamm: Command, group: str) -> None:
    """The error for an unknown group says what to do next."""
    finished = klamm("group", "explain", group)
    assert (finished.status, finished.stdout) == (1, "")
    assert finished.stderr == f"klamm group: there is no group {group}; `klamm group list` shows the groups\n"


def test_what_the_raw_client_can_not_reach_librdkafka_describes(klamm: Command, topic: str, group: str) -> None:
    """If klamm's own client can't connect, librdkafka describes the group with less detail. librdkafka supports TLS and
    SASL, and addresses without a port as in this test."""
    klamm.start("consume", topic, "-g", group, "-X", "client.id=somebody")
    _until(klamm, ("group", "explain", group, "somebody"), lambda text: f"has {topic}" in text)
    address = klamm.environment["KLAMM_BOOTSTRAP_SERVER"]
    shown = klamm.done("group", "explain", group, "-b", f"{address},localhost")
    assert f"has {topic} 0-2: 3 of 3 partitions" in shown
    assert klamm.done("group", "describe", group, "-b", f"{address},localhost").startswith(
        f"group {group}: stable, 1 member, lag 0\n"
    )
