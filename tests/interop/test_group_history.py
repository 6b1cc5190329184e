"""Tests the rebalances of real clients' groups in `__group_history`, as an ordinary consumer reads them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic
from tests.interop.broker_process import BrokerProcess
from tests.interop.client_process import ClientProcess
from tests.interop.history_reader import HistoryReader, Record, member_ids, owners, pauses
from tests.interop.record_scenarios import PARTITIONS

from klamm.testing import Broker

EVERYTHING = list(range(PARTITIONS))
CLASSIC = {"session_timeout_ms": "60000", "heartbeat_interval_ms": "300"}
EAGER = CLASSIC | {"partition_assignment_strategy": "range"}
MORTAL = EAGER | {"session_timeout_ms": "6000"}
"""Settings of a member that a test kills. Other members keep their sessions when they get no processor for seconds."""
COOPERATIVE = CLASSIC | {"partition_assignment_strategy": "cooperative-sticky"}
CONSUMER = {"group_protocol": "consumer"}


@pytest.fixture
def new_client(
    restartable_broker: BrokerProcess, new_python_client: Callable[[str], ClientProcess]
) -> Callable[[], ClientProcess]:
    """Returns a function that starts a process with confluent-kafka; skips the tests with a broker other than klamm."""
    return lambda: new_python_client("confluent_kafka")


@pytest.fixture
def history(restartable_broker: BrokerProcess) -> Iterator[HistoryReader]:
    """A consumer of `__group_history`."""
    with HistoryReader(restartable_broker.bootstrap_servers) as reader:
        yield reader


def caused_by(code: str, record: Record, client: str) -> bool:
    """Returns whether the record names this cause by a member with this client id."""
    causes = [(cause["code"], cause["member"]) for cause in record["causes"]]
    return any((code, member_id) in causes for member_id in member_ids(record, client))


def test_eager_members_stand_still_whenever_one_comes_or_goes(
    client: ClientProcess,
    start_client: Callable[[], ClientProcess],
    history: HistoryReader,
    topic: str,
    group: str,
) -> None:
    """A join, a leave and a session timeout each have a history record with the moved partitions. After a join, the
    record also has the pauses of other members."""
    other = start_client()
    first = client.join("first", group, topic, **EAGER)
    first.wait_until(lambda m: m.assignment == EVERYTHING, "owns everything")
    begun = history.wait_for(group, lambda record: record["outcome"] == "stable")
    assert (begun["previous_epoch"], begun["type"], begun["assignor"]) == (0, "classic", "range")
    assert owners(begun, "after") == dict.fromkeys(EVERYTHING, "first")
    second = client.join("second", group, topic, **EAGER)
    third = other.join("third", group, topic, **MORTAL)
    for member in (first, second, third):
        member.wait_until(lambda m: len(m.assignment or []) == 2, "owns a third")
    joined = history.wait_for(group, lambda record: len(set(owners(record, "after").values())) == 3)
    assert caused_by("member_joined", joined, "third")
    # The pause may be shorter than a millisecond, and counts as 0 then.
    assert "first" in pauses(joined)
    for move in joined["moved"]:
        was, is_now = owners(joined, "before").get(move["partition"]), owners(joined, "after")[move["partition"]]
        assert (move["from"] and move["from"] in member_ids(joined, was or "")) or was is None
        assert move["to"] in member_ids(joined, is_now)
        assert was != is_now
    second.leave()
    left = history.wait_for(group, lambda record: caused_by("member_left", record, "second"))
    assert set(owners(left, "after").values()) <= {"first", "third"}
    for member in (first, third):
        member.wait_until(lambda m: len(m.assignment or []) == 3, "owns half")
    other.kill()
    died = history.wait_for(group, lambda record: caused_by("session_timed_out", record, "third"))
    assert owners(died, "after") == dict.fromkeys(EVERYTHING, "first")
    assert {move["from"] for move in died["moved"]} == set(member_ids(died, "third"))
    sequences = [record["sequence"] for record in history.of(group)]
    assert sequences == list(range(len(sequences)))
    epochs = [(record["previous_epoch"], record["epoch"]) for record in history.of(group)]
    assert all(before[1] == after[0] for before, after in pairwise(epochs))
    assert history.of(history.group) == []


@pytest.mark.parametrize("settings", [COOPERATIVE, CONSUMER], ids=["cooperative-sticky", "consumer protocol"])
def test_members_that_keep_partitions_do_not_pause(
    client: ClientProcess, history: HistoryReader, topic: str, group: str, settings: dict[str, str]
) -> None:
    """A new member gets half of the partitions and gives them back when it leaves; the first member never pauses
    (I19)."""
    first = client.join("first", group, topic, **settings)
    first.wait_until(lambda m: m.assignment == EVERYTHING, "owns everything")
    second = client.join("second", group, topic, **settings)
    for member in (first, second):
        member.wait_until(lambda m: len(m.assignment or []) == 3, "owns half")
    halves = history.wait_for(group, lambda record: set(owners(record, "after").values()) == {"first", "second"})
    kept = [partition for partition, client_id in owners(halves, "after").items() if client_id == "first"]
    second.leave()
    first.wait_until(lambda m: m.assignment == EVERYTHING, "owns everything again")
    again = history.wait_for(
        group,
        lambda record: (
            caused_by("member_left", record, "second") and owners(record, "after") == dict.fromkeys(EVERYTHING, "first")
        ),
    )
    assert {move["partition"] for move in again["moved"]} == set(EVERYTHING) - set(kept)
    told = [pauses(record)["first"] for record in history.of(group) if "first" in pauses(record)]
    assert set(told) == {0}
    first.leave()
    history.wait_for(group, lambda record: record["outcome"] == "empty")


def test_a_failing_consumer_rebalances_the_group_of_its_own_environment(
    client: ClientProcess, start_client: Callable[[], ClientProcess], history: HistoryReader, topic: str, group: str
) -> None:
    """A consumer of the dev group that dies repeatedly causes no rebalance of the prod group on the same topic."""
    dev, prod = f"dev.{group}", f"prod.{group}"
    members = [client.join(name, prod, topic, **EAGER) for name in ("prod-1", "prod-2")]
    healthy = client.join("dev-1", dev, topic, **EAGER)
    stable = history.wait_for(prod, lambda record: set(owners(record, "after").values()) == {"prod-1", "prod-2"})
    for _ in range(2):
        failing = start_client()
        member = failing.join("dev-2", dev, topic, **MORTAL)
        member.wait_until(lambda m: len(m.assignment or []) == 3, "owns half")
        failing.kill()
        healthy.wait_until(lambda m: m.assignment == EVERYTHING, "takes over")
    history.wait_for(dev, lambda record: [cause["code"] for cause in record["causes"]].count("session_timed_out") > 0)
    deaths = [record for record in history.of(dev) if caused_by("session_timed_out", record, "dev-2")]
    assert deaths
    assert all(owners(record, "after") == dict.fromkeys(EVERYTHING, "dev-1") for record in deaths)
    members[1].leave()
    left = history.wait_for(prod, lambda record: caused_by("member_left", record, "prod-2"))
    assert (left["previous_epoch"], left["sequence"]) == (stable["epoch"], stable["sequence"] + 1)
    assert history.of(prod)[-2:] == [stable, left]


def test_a_topic_that_grows_is_named_as_the_cause(
    client: ClientProcess, history: HistoryReader, bootstrap: str, topic: str, group: str
) -> None:
    """In both protocols, the history names added partitions as the cause. In a classic group the leader notices the
    change, and its request names no cause."""
    for protocol, settings in (("classic", EAGER), ("consumer", CONSUMER)):
        client.join(protocol, f"{group}-{protocol}", topic, topic_metadata_refresh_interval_ms="500", **settings)
        history.wait_for(f"{group}-{protocol}", lambda record: record["outcome"] == "stable")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(topic, 2 * PARTITIONS)])[topic].result(30)
    for protocol in ("classic", "consumer"):
        grown = history.wait_for(
            f"{group}-{protocol}", lambda record: record["causes"][0]["code"] == "partitions_added"
        )
        assert sorted(move["partition"] for move in grown["moved"]) == list(range(PARTITIONS, 2 * PARTITIONS))
        assert {move["from"] for move in grown["moved"]} == {None}


def test_a_coordinator_that_starts_again_says_what_it_found(
    client: ClientProcess, restartable_broker: BrokerProcess, history: HistoryReader, topic: str, group: str
) -> None:
    """After a restart, the coordinator writes a record of the group's unchanged state before the record of the first
    change."""
    first = client.join("first", group, topic, **CLASSIC)
    begun = history.wait_for(group, lambda record: record["outcome"] == "stable")
    restartable_broker.restart()
    second = client.join("second", group, topic, **CLASSIC)
    for member in (first, second):
        member.wait_until(lambda m: len(m.assignment or []) == 3, "owns half")
    taken_over = history.wait_for(group, lambda record: record["outcome"] == "taken_over")
    assert taken_over["coordinator_epoch"] > begun["coordinator_epoch"]
    assert (taken_over["sequence"], taken_over["previous_epoch"]) == (0, begun["epoch"])
    assert taken_over["members_before"] == taken_over["members_after"] == begun["members_after"]
    joined = history.wait_for(group, lambda record: set(owners(record, "after").values()) == {"first", "second"})
    assert (joined["sequence"], joined["previous_epoch"]) == (1, begun["epoch"])


def test_members_that_come_together_make_one_rebalance(tmp_path: Path) -> None:
    """With klamm.group.rebalance.batch.ms, members that join within this time cause one rebalance, and the first member
    reads until the time is over."""
    # A busy machine may need seconds to start the third member after the second one.
    config = {"klamm.group.rebalance.batch.ms": "10000"}
    with Broker(tmp_path / "broker", config=config) as broker, HistoryReader(broker.bootstrap_servers) as history:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic("events", PARTITIONS)])["events"].result(30)
        command = [sys.executable, "-m", "tests.interop.drivers.drive_confluent_kafka", broker.bootstrap_servers]
        client = ClientProcess(command, folder=Path(__file__).parents[2])
        try:
            first = client.join("first", "orders", "events", **EAGER)
            first.wait_until(lambda m: m.assignment == EVERYTHING, "owns everything")
            others = [client.join(name, "orders", "events", **EAGER) for name in ("second", "third")]
            for member in (first, *others):
                member.wait_until(lambda m: len(m.assignment or []) == 2, "owns a third")
            record = history.wait_for("orders", lambda record: len(record["members_after"]) > 1)
        finally:
            client.close()
    assert [cause["code"] for cause in record["causes"]] == ["member_joined", "member_joined"]
    assert (record["outcome"], record["previous_epoch"], record["epoch"]) == ("stable", 1, 2)
    assert pauses(record)["first"] < record["finished_ms"] - record["started_ms"] - 5000
