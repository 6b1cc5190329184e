"""Tests a small fixed set of worlds in every test run; `make sim SEEDS=100000` runs any number of worlds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest
from tests.simulation.bugs import GROUP_BUGS
from tests.simulation.checkers.checkers import Checkers
from tests.simulation.planted import Planted, assert_is_found, assert_is_readable
from tests.simulation.run import run_seed, run_seeds
from tests.support.share_of_gate import share_of_gate

from klamm.testing import Broker

# A test with hundreds of worlds may take long on a slow machine.
pytestmark = pytest.mark.timeout(900)

SEEDS = range(1, 41)
ROOT = Path(__file__).parents[2]
CHECKSUM = (
    "import sys; from tests.simulation.run import run_seed;"
    " print(run_seed(int(sys.argv[2]), kind=sys.argv[1], sums=True).checksum)"
)

EVENTFUL = (
    *("MEMBER_ID_REQUIRED", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS", "skip_assignment=True"),
    *("FENCED_INSTANCE_ID", "UNRELEASED_INSTANCE_ID", "STALE_MEMBER_EPOCH", "GROUP_ID_NOT_FOUND", "NON_EMPTY_GROUP"),
    *("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "UNKNOWN_TOPIC_ID"),
    *("cause=session_timed_out", "cause=rebalance_timed_out", "cause=static_member_returned", "cause=member_left"),
    *("cause=topic_deleted", "cause=partitions_added", "cause=protocol_changed", "GroupDeleted"),
    *("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "CONCURRENT_TRANSACTIONS", "INVALID_TXN_STATE"),
)
"""Answers and causes that must occur in worlds of groups."""

EVENTFUL_FOR_LOGS = (
    *("the power goes during pwritev", "the power goes during fdatasync", "the power goes during rename"),
    *("the process is killed during", "stopped, in order", "stopped, not in order", "falls over", "is offline"),
    *(
        "trouble: full",
        "trouble: errors",
        "trouble: syncs",
        "trouble: reads",
        "fdatasync of",
        "brought back from a copy",
    ),
    *(
        "is torn",
        "lost is the folder",
        "which is deleted",
        "which is emptied",
        ".index of",
        "has a wrong position",
        "and the next segment begins at",
    ),
    *("KAFKA_STORAGE_ERROR", "OUT_OF_ORDER_SEQUENCE_NUMBER", "INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE"),
)
"""Texts that must occur in the notes of worlds of logs."""

PLANTED = {
    "skip a fence": Planted(200, (16, 26)),
    "hand over before revocation": Planted(25, (15, 19, 26)),
    "forget a tombstone": Planted(300, (17,)),
    "lose a timer": Planted(300, (26,)),
    "replay out of order": Planted(60, (17,)),
    "accept a stale commit": Planted(120, (16,)),
    "believe a former producer": Planted(400, (13,)),
    "forget markers": Planted(400, (14,)),
    "miss heartbeats of a leader": Planted(600, (15,)),
    "replace a live static member": Planted(160, (15,)),
    "apply an old assignment": Planted(100, (15,)),
    "go on without who left": Planted(30, (26,)),
    "write an older commit last": Planted(600, (17,)),
    "let a repeated commit expire": Planted(80, (17,)),
    "show pending offsets": Planted(40, (12,)),
    "answer reads at once": Planted(80, (17,)),
    "cut damage silently": Planted(280, (8, 10, 11)),
    "forget to truncate producers": Planted(30, (11,)),
    "pass an open transaction": Planted(20, (11,)),
    "forget to sync names": Planted(50, (1, 8, 11)),
    "believe a second sync": Planted(930, (8,)),
    "delete what is not committed": Planted(680, (4,)),
    "keep too little": Planted(140, (4,)),
    "keep epochs beyond a cut": Planted(200, (1,)),
    "forget the epoch of a cut": Planted(200, (1,)),
    "forget to checkpoint an epoch": Planted(50, (1,)),
    "raise the log start too far": Planted(110, (4,)),
    "end the next transaction": Planted(160, (10,)),
    "expire an open transaction": Planted(110, (10, 11)),
    "drop tombstones at once": Planted(2300, (9,)),
    "vouch too early": Planted(50, (1, 8, 9, 10, 11)),
    "make a lost folder anew": Planted(430, (8,)),
    "begin with what is there": Planted(220, (8,)),
    "pass over a gap": Planted(160, (8,)),
    "remove segments too early": Planted(410, (8,)),
    "forget what belongs to a lost segment": Planted(810, (11,)),
    "keep half an index": Planted(650, (9, 11)),
    "save only the last batch": Planted(750, (10,)),
    "follow an index blindly": Planted(260, (8,)),
    "take what looks like a batch": Planted(420, (8,)),
}
"""What is expected of each planted bug."""


@pytest.mark.parametrize("seed", SEEDS)
def test_invariants_hold(seed: int) -> None:
    """I12 to I19 and I26 hold in the world of this seed."""
    outcome = run_seed(seed)
    assert outcome.is_ok, outcome.failure


@pytest.mark.parametrize("seed", SEEDS)
def test_invariants_of_logs_hold(seed: int) -> None:
    """I1, I4 and I8 to I11 hold in the world of this seed, despite all faults of its disk."""
    outcome = run_seed(seed, kind="log")
    assert outcome.is_ok, outcome.failure


@pytest.mark.parametrize(
    ("kind", "seed"), [("groups", 3), ("groups", 8), ("groups", 21), ("groups", 32), ("log", 12), ("log", 25)]
)
def test_seed_replays_exactly(kind: str, seed: int) -> None:
    """A seed has the same events in another process with other hashes of strings."""
    outcome = run_seed(seed, kind=kind, sums=True)
    for hash_seed in ("1", "4711"):
        again = subprocess.run(
            [sys.executable, "-c", CHECKSUM, kind, str(seed)],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert int(again.stdout) == outcome.checksum


@pytest.mark.parametrize("bug", share_of_gate(PLANTED, 6))
def test_planted_bug_is_found(bug: str) -> None:
    """A planted bug breaks one of the stated invariants within the stated number of seeds, and its report is
    readable."""
    kind = "groups" if bug in GROUP_BUGS else "log"
    assert_is_found(kind, bug, PLANTED[bug])


def test_worlds_are_eventful() -> None:
    """Each answer and cause that the checkers need occurs within 120 seeds."""
    missing = set(EVENTFUL)

    def listen(line: str) -> None:
        missing.difference_update([words for words in missing if words in line])

    for seed in range(1, 121):
        run_seed(seed, listener=listen)
        if not missing:
            return
    assert not missing


def test_worlds_of_logs_are_eventful() -> None:
    """Each kind of fault and each kind of answer occurs within 120 seeds."""
    missing = set(EVENTFUL_FOR_LOGS)

    def listen(line: str) -> None:
        missing.difference_update([words for words in missing if words in line])

    for seed in range(1, 121):
        run_seed(seed, kind="log", listener=listen)
        if not missing:
            return
    assert not missing


def test_failure_says_how_to_see_it_again() -> None:
    """A failure contains seed, step, and the command that reproduces exactly the same failure."""
    bug = "accept a stale commit"
    outcome = next(outcome for outcome in (run_seed(seed, bug=bug) for seed in range(1, 51)) if not outcome.is_ok)
    assert outcome.invariant == 16
    assert f"seed {outcome.seed}, step {outcome.steps}" in outcome.failure
    assert f"python -m tests.simulation --world groups --seeds {outcome.seed} --bug '{bug}'" in outcome.failure
    assert run_seed(outcome.seed, bug=bug).failure == outcome.failure


REPORT = (
    "import sys; from tests.simulation.run import run_seed;"
    " print(run_seed(int(sys.argv[2]), kind=sys.argv[1], bug=sys.argv[3]).failure)"
)


@pytest.mark.parametrize(
    ("bug", "told"),
    [
        ("replay out of order", r"^  \S.*: (klamm .+, (the log|replay) .+|only .+)$"),
        ("forget to truncate producers", r"Record\(offset=\d+, "),
        ("skip a fence", r"\[\(\w{6}, \d\)|group-\d\.member-\d"),
    ],
)
def test_reports_name_what_differs(bug: str, told: str) -> None:
    """A report names what differs, contains no names of temporary folders, and is the same in each run."""
    kind = "groups" if bug in GROUP_BUGS else "log"
    outcome = next(each for each in (run_seed(seed, kind=kind, bug=bug) for seed in range(1, 201)) if not each.is_ok)
    first, _, _ = outcome.failure.partition("the world:")
    assert re.search(told, first, re.MULTILINE), first
    assert_is_readable(outcome.failure)
    assert "simulation-" not in outcome.failure
    for hash_seed in ("1", "4711"):
        again = subprocess.run(
            [sys.executable, "-c", REPORT, kind, str(outcome.seed), bug],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert again.stdout.rstrip("\n") == outcome.failure


@pytest.mark.parametrize("kind", ["broker", "cluster", "replicas"])
def test_a_world_refuses_to_run_beside_a_broker(kind: str) -> None:
    """A broker in another thread would use the world's clock and files; the report says that the world is not alone."""
    with Broker():
        outcome = run_seed(1, kind=kind)
    assert "threads of klamm: " in outcome.failure
    assert "klamm-broker" in outcome.failure
    assert run_seed(1, kind=kind).is_ok


def test_an_exception_that_nobody_expected_is_a_finding() -> None:
    """An unexpected exception is a finding with its traceback and its seed, and the other seeds still run."""

    def fail(*arguments: object) -> None:
        raise KeyError("a bug in a world")

    with patch.object(Checkers, "on_request", fail):
        outcomes = list(run_seeds([1, 2]))
    assert [outcome.seed for outcome in outcomes] == [1, 2]
    for outcome in outcomes:
        assert not outcome.is_ok
        assert "KeyError: 'a bug in a world'" in outcome.failure
        assert 'test_simulation.py", line' in outcome.failure
        assert f"--seeds {outcome.seed}" in outcome.failure
