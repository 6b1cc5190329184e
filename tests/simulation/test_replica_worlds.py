"""Tests a small fixed set of worlds with replicated partitions in every test run; `make sim` runs any number of
worlds."""

from __future__ import annotations

import pytest
from tests.simulation.clusters.plan import MAJORITY, UNLIMITED
from tests.simulation.planted import OTHER, OTHER_CLUSTER, Planted, assert_is_found
from tests.simulation.run import run_seed, settle_too_seldom
from tests.support.share_of_gate import share_of_gate

# A test with hundreds of worlds may take long on a slow machine.
pytestmark = pytest.mark.timeout(900)

SEEDS = range(1, 13)
EVENTFUL_UNLIMITED = (
    *("do not reach brokers [", "does not reach the metadata store", "stands still"),
    *("the power goes", "the session of broker 1 ends", "as the metadata tell", "does not start"),
    *("is about to lose the log", "is in order", "is allowed to be unclean"),
    "returns while another one is elected",
)
EVENTFUL = (
    *("is led in epoch 3", "the power goes", "the process is killed", "has lost its session", "does not reach broker"),
    *("NOT_ENOUGH_REPLICAS", "NOT_LEADER_OR_FOLLOWER", "NOT_COORDINATOR", "is told to stop"),
    *("is about to lose the log", "is almost full", "refuses writes", "has lost the folder", "KAFKA_STORAGE_ERROR"),
    *("the disk of broker 1 is in order", "is unaware", "stands still"),
    *(
        "has deleted the records of",
        "what is before it is deleted",
        "retention leaves",
        "retention deletes old records",
    ),
    *("a log of __consumer_offsets-0 was compacted", "a log of __transaction_state-0 was compacted"),
)
"""Texts that must occur in the notes of these worlds, with unlimited faults and with faults that leave a majority."""
OF_RARE_FAULTS = (41, 59, 65, 69, 84, 113)
"""Seeds of worlds with unclean elections, returns during them, starts that fail, and disks that are full or refuse
writes."""

PLANTED = {
    "truncate to the high watermark": Planted(50, (3, 7)),
    "truncate whole epochs": Planted(20, (3, 7)),
    "let logs diverge": Planted(30, (2, 3, 7)),
    "join too early": Planted(30, (3,)),
    "let the high watermark fall": Planted(20, (3, 4, 5)),
    "ignore the proposal": Planted(30, (4, 5)),
    "trust an earlier run": Planted(40, (3,)),
    "skip the broker epoch": Planted(40, (3,)),
    "keep the eligible": Planted(40, (5,)),
    "elect anybody": Planted(20, (3,)),
    "elect while one returns": Planted(390, (3,)),
    "pass over the eligible": Planted(1400, (3,), first=390),
    "keep the places": Planted(20, (3, 6)),
    "count unsynced records": Planted(30, (4,)),
    "commit alone": Planted(30, (3, 4, 5)),
    "repeat blindly": Planted(50, (6,), (*OTHER_CLUSTER, "Violation: I6: two brokers have written to ")),
    "acknowledge without a session": Planted(250, (6,)),
    "show uncommitted records": Planted(20, (5, 11)),
    "forget the boot": Planted(80, (3,)),
    "append damaged batches": Planted(60, (2, 7)),
    "remember an earlier epoch": Planted(180, (3, 4)),
    "commit after the lease": Planted(290, (2, 6, 26)),
    "coordinate after the lease": Planted(250, (17,)),
    "keep a place after the failure": Planted(130, (8,)),
    "shrink without a log": Planted(230, (8,)),
    "fetch from former leaders": Planted(20, (6,)),
    "keep leading": Planted(20, (6,)),
    "forget a lost folder": Planted(400, (8,)),
    "keep what is deleted": Planted(20, (26,)),
    "answer before the followers": Planted(20, (OTHER,)),
    "delete up to the high watermark": Planted(20, (4,)),
    "send deleted records": Planted(20, (OTHER,)),
    "keep too little": Planted(80, (4,)),
    "compact uncommitted records": Planted(300, (2, 3)),
    "compact aborted records": Planted(280, (2, 3)),
}
"""What is expected of each planted bug."""


@pytest.mark.parametrize("seed", SEEDS)
def test_invariants_of_replicas_hold(seed: int) -> None:
    """I1 to I18 and I26 hold for the clients and the replicas in the world of this seed. During the faults, I14 is
    checked only if no connection is cut or stalled.
    """
    outcome = run_seed(seed, kind="replicas", faults=MAJORITY)
    assert outcome.is_ok, outcome.failure


def test_invariants_of_replicas_hold_under_unlimited_faults() -> None:
    """I1 to I13 and I15 to I18 hold in the worlds of these seeds. I14 and I26 do not need to hold, but most of the
    worlds are in order again after the faults, so that all is read and compared, and I14 is checked.
    """
    outcomes = [run_seed(seed, kind="replicas", faults=UNLIMITED) for seed in SEEDS]
    for outcome in outcomes:
        assert outcome.is_ok, outcome.failure
    unsettled = [outcome.seed for outcome in outcomes if not outcome.has_settled]
    assert not settle_too_seldom(len(outcomes) - len(unsettled), len(unsettled)), unsettled


@pytest.mark.parametrize("faults", [MAJORITY, UNLIMITED])
def test_seed_replays_exactly(faults: str) -> None:
    """A seed has the same events each time."""
    first, second = (run_seed(5, kind="replicas", sums=True, faults=faults) for _ in range(2))
    assert (first.checksum, first.steps) == (second.checksum, second.steps)


@pytest.mark.parametrize("bug", share_of_gate(sorted(PLANTED), 6))
def test_planted_bug_is_found(bug: str) -> None:
    """A bug that is planted into replication breaks one of the stated invariants within the stated number of seeds."""
    assert_is_found("replicas", bug, PLANTED[bug])


@pytest.mark.parametrize(("faults", "texts"), [(MAJORITY, EVENTFUL), (UNLIMITED, EVENTFUL_UNLIMITED)])
def test_worlds_of_replicas_are_eventful(faults: str, texts: tuple[str, ...]) -> None:
    """Each kind of fault occurs within 40 seeds and those of rare faults, and clients meet its effects."""
    missing = set(texts)

    def listen(line: str) -> None:
        missing.difference_update([words for words in missing if words in line])

    for seed in (*range(1, 41), *OF_RARE_FAULTS):
        run_seed(seed, kind="replicas", listener=listen, faults=faults)
        if not missing:
            return
    assert not missing
