"""Tests the checks of brokers' states, of what a leader waits for, and of retention, with states made by hand: each
property holds in one state, and is broken in another."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from types import SimpleNamespace as Stub
from typing import Any, cast

import pytest
from tests.simulation.clusters.replica_checks import ReplicaChecks, naming_followers
from tests.simulation.clusters.replica_states import ReplicaStates
from tests.simulation.logs.device import Crash
from tests.simulation.violation import Violation

from klamm.broker.partitions.followers import Followers
from klamm.core.log.retention import SegmentFacts
from klamm.metadata.image import LiveBroker, MetadataImage, PartitionImage, ResourceType, TopicImage
from klamm.protocol.types import BrokerId, LeaderEpoch, Millis, Offset, PartitionIndex, TopicId, TopicPartition
from klamm.storage.log.log_retention import LogRetention

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
WHERE = TopicPartition("topic", PartitionIndex(0))
LED = PartitionImage(PartitionIndex(0), ONE, LeaderEpoch(4), (ONE, TWO, THREE), (ONE, TWO), partition_epoch=7)
ID = TopicId(b"t" * 16)
KEY = (ID, PartitionIndex(0))


def _image(partition: PartitionImage = LED, *, revision: int = 9) -> MetadataImage:
    topic = TopicImage("topic", ID, (partition,), {})
    live = {number: LiveBroker("run", 10) for number in (ONE, TWO)}
    return MetadataImage(revision=revision, topics={"topic": topic}, topics_by_id={ID: topic}, live=live)


class _Cluster:
    """Broker 1, which leads the only partition, and broker 2, which fetches it, in order with the metadata."""

    def __init__(self) -> None:
        self.partition: Any = Stub(leads=True, index=0, leader_epoch=LED.leader_epoch, image=LED, followers=None)
        self.partition.followers = Stub(_proposed=None)
        self.leader = _machine([self.partition], {})
        self.fetchers: dict[BrokerId, Any] = {ONE: _fetcher(KEY)}
        self.follower = _machine([None], self.fetchers)
        self.checks: Any = Stub(
            machines={ONE: self.leader, TWO: self.follower}, image=_image(), runs=lambda number, machine: True
        )
        self.states = ReplicaStates(cast("Any", self.checks))
        self.states.written(self.checks.image)


def _fetcher(*positions: object, unsynced: tuple[object, ...] = ()) -> Any:
    return Stub(_fetch=Stub(_positions=dict.fromkeys(positions)), _unsynced=dict.fromkeys(unsynced))


def _machine(partitions: list[Any], fetchers: dict[BrokerId, Any]) -> Any:
    context = Stub(
        metadata=Stub(incarnation="run", image=_image()),
        partitions=Stub(by_name={"topic": Stub(partitions=partitions)}),
    )
    replication = Stub(fetchers=Stub(_is_stopped=False, _fetchers=fetchers))
    return Stub(context=context, services=Stub(replication=replication))


def test_states_in_order() -> None:
    """No property is broken while the brokers do what the metadata say, or do not serve."""
    cluster = _Cluster()
    cluster.states.look()
    assert cluster.states.why_diverging() is None
    cluster.follower.context = None
    cluster.states.look()


def test_a_broker_serves_before_it_has_registered() -> None:
    """A broker serves only after its run was live in the metadata (`ValidBrokerState`)."""
    cluster = _Cluster()
    cluster.follower.context.metadata.incarnation = "the next run"
    with pytest.raises(Violation, match="broker 2 serves, and has not registered its run"):
        cluster.states.look()


@pytest.mark.parametrize(
    "known",
    [
        _image(replace(LED, leader=TWO, leader_epoch=LeaderEpoch(5)), revision=8),
        _image(replace(LED, leader_epoch=LeaderEpoch(3)), revision=8),
        MetadataImage(revision=8),
    ],
)
def test_a_broker_leads_what_its_metadata_do_not_say(known: MetadataImage) -> None:
    """A broker leads only what its own metadata say, in this leader epoch or a later one (`ValidReplicaState`)."""
    cluster = _Cluster()
    cluster.leader.context.metadata.image = known
    with pytest.raises(Violation, match=r"broker 1 leads .*, and its metadata have"):
        cluster.states.look()


def test_a_leader_of_an_earlier_epoch() -> None:
    """A leader that stays the leader may take over the next leader epoch a little later."""
    cluster = _Cluster()
    cluster.partition.leader_epoch = LeaderEpoch(3)
    cluster.states.look()


def _fetch_from_two(cluster: _Cluster) -> None:
    cluster.fetchers[THREE] = _fetcher(unsynced=(KEY,))


def _fetch_from_a_follower(cluster: _Cluster) -> None:
    cluster.fetchers[THREE] = cluster.fetchers.pop(ONE)


def _fetch_what_is_gone(cluster: _Cluster) -> None:
    cluster.fetchers[ONE] = _fetcher((TopicId(b"u" * 16), PartitionIndex(0)))


def _fetch_what_it_leads(cluster: _Cluster) -> None:
    cluster.leader.services.replication.fetchers._fetchers[ONE] = _fetcher(KEY)


@pytest.mark.parametrize(
    ("break_it", "what"),
    [
        (_fetch_from_two, "broker 2 fetches .* from brokers 1 and 3"),
        (_fetch_from_a_follower, "broker 2 fetches from broker 3, and its metadata have"),
        (_fetch_what_is_gone, "broker 2 fetches from broker 1, and its metadata have None"),
        (_fetch_what_it_leads, "broker 1 leads .* and fetches it"),
    ],
)
def test_a_broker_fetches_from_a_wrong_leader(break_it: Callable[[_Cluster], None], what: str) -> None:
    """A broker fetches a partition from one leader only, the one of its metadata, and none that it leads
    (`ValidFetcherState`). Fetchers that are stopped send nothing more."""
    cluster = _Cluster()
    break_it(cluster)
    with pytest.raises(Violation, match=what):
        cluster.states.look()
    for machine in (cluster.leader, cluster.follower):
        machine.services.replication.fetchers._is_stopped = True
    cluster.states.look()


@pytest.mark.parametrize(
    "known",
    [
        _image(replace(LED, isr=(ONE,))),
        replace(_image(), configs={(ResourceType.BROKER, ""): {"min.insync.replicas": "1"}}),
    ],
)
def test_metadata_of_a_broker_differ(known: MetadataImage) -> None:
    """A broker that has reached the store's revision has the topics and configs of the store (`MetadataLogMatching`).
    An earlier revision has other ones."""
    cluster = _Cluster()
    cluster.follower.context.metadata.image = known
    with pytest.raises(Violation, match="broker 2 has other metadata than the store at revision 9"):
        cluster.states.look()
    cluster = _Cluster()
    cluster.follower.context.metadata.image = replace(known, revision=8)
    cluster.states.look()


def _do_not_serve(cluster: _Cluster) -> None:
    cluster.follower.context = None


def _know_less(cluster: _Cluster) -> None:
    cluster.follower.context.metadata.image = _image(revision=8)


def _do_not_lead(cluster: _Cluster) -> None:
    cluster.partition.leads = False


def _have_no_partition(cluster: _Cluster) -> None:
    cluster.leader.context.partitions.by_name.clear()


def _lead_what_another_leads(cluster: _Cluster) -> None:
    cluster.follower.context.partitions.by_name["topic"].partitions[0] = cluster.partition


def _lead_with_former_replicas(cluster: _Cluster) -> None:
    cluster.partition.image = replace(LED, isr=(ONE,))


def _lead_in_an_earlier_epoch(cluster: _Cluster) -> None:
    cluster.partition.leader_epoch = LeaderEpoch(3)


def _propose(cluster: _Cluster) -> None:
    cluster.partition.followers._proposed = (ONE, TWO, THREE)


@pytest.mark.parametrize(
    ("break_it", "what"),
    [
        (_do_not_serve, "broker 2 does not know revision 9"),
        (_know_less, "broker 2 does not know revision 9"),
        (_do_not_lead, "broker 1 does not know that broker 1 leads topic-0"),
        (_have_no_partition, "broker 1 does not know that broker 1 leads topic-0"),
        (_lead_what_another_leads, "broker 2 does not know that broker 1 leads topic-0"),
        (_lead_with_former_replicas, "broker 1 leads topic-0 with "),
        (_lead_in_an_earlier_epoch, "broker 1 leads topic-0 with "),
        (_propose, "a proposal of broker 1 for topic-0 does not end"),
    ],
)
def test_metadata_do_not_converge(break_it: Callable[[_Cluster], None], what: str) -> None:
    """All brokers know the newest metadata and act on them, and no proposal is in progress
    (`EventuallyMetadataConverges`, `AlterPartitionEpochEventuallyReachedOrZero`)."""
    cluster = _Cluster()
    break_it(cluster)
    assert (cluster.states.why_diverging() or "").startswith(what)


@pytest.mark.parametrize(
    ("in_sync", "eligible", "is_found"),
    [((ONE, TWO), (), False), ((ONE, TWO, THREE), (), True), ((ONE, TWO), (THREE,), True), ((ONE, THREE), (), True)],
)
def test_another_follower_with_the_same_offset_hides_nothing(
    in_sync: tuple[BrokerId, ...], eligible: tuple[BrokerId, ...], is_found: bool
) -> None:
    """A leader waits for each replica that may be elected, even if another one for which it waits holds the same
    records (`ReplicationQuorumSuperset`)."""
    port: Any = Stub(node_id=ONE, max_lag_ms=0, now_ms=lambda: 1.0, live_epoch=lambda number: None)
    with naming_followers():
        followers = Followers(LED, Offset(0), port)
        partition: Any = Stub(
            log=Stub(topic_partition=WHERE, log_end_offset=5, high_watermark=0), followers=followers, image=LED
        )
        for number in (TWO, THREE):
            followers.fetched(partition, number, 10, Offset(5), Offset(0))
    assert followers.end_offsets == (5,)
    checks = ReplicaChecks(Stub(machines={}))  # type: ignore[arg-type]
    checks.image = _image(replace(LED, isr=in_sync, elr=eligible))
    if is_found:
        with pytest.raises(Violation, match="the high watermark of topic-0 rises to 5, and its leader waits for"):
            checks._check_quorum(partition, 5)
    else:
        checks._check_quorum(partition, 5)


@pytest.mark.parametrize(
    ("led", "in_sync", "eligible", "fetched", "binds"),
    [
        (4, (ONE,), (), {}, True),
        (4, (ONE, TWO), (), {TWO: 4}, True),
        (4, (ONE, TWO), (THREE,), {TWO: 4, THREE: 4}, True),
        (3, (ONE, TWO), (), {TWO: 4}, False),
        (4, (ONE, TWO), (), {TWO: 3}, False),
        (4, (ONE,), (TWO,), {THREE: 4}, False),
        (4, (ONE, TWO), (THREE,), {TWO: 4}, False),
    ],
)
def test_leader_binds_the_next_one_once_its_followers_have_fetched(
    led: int,
    in_sync: tuple[BrokerId, ...],
    eligible: tuple[BrokerId, ...],
    fetched: dict[BrokerId, int],
    binds: bool,
) -> None:
    """The next leader has no earlier records than the present one once each replica that may be elected has fetched in
    this leader epoch, and the leader knows the epoch. `fetched` has the leader epoch of each follower's last fetch."""
    checks = ReplicaChecks(Stub(machines={}))  # type: ignore[arg-type]
    checks.image = _image(replace(LED, isr=in_sync, elr=eligible))
    checks._led[WHERE, ONE] = led
    for number, leader_epoch in fetched.items():
        checks._fetched[WHERE, leader_epoch, number] = 10
    assert checks.binds_next_leader(WHERE) is binds


@pytest.mark.parametrize(("retention_bytes", "is_found"), [(100, False), (101, True)])
def test_a_process_dies_while_retention_deletes_a_segment(
    retention_bytes: int, is_found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a process dies when it has renamed a part of a segment's files, the records count as deleted, and the check of
    what retention leaves runs (I4)."""

    def die(retention: LogRetention, now_ms: Millis) -> int:
        retention._log.log_start_offset = Offset(5)
        raise Crash("the process is killed")

    monkeypatch.setattr(LogRetention, "delete_old_segments", die)
    facts = [SegmentFacts(Offset(5), 100, Millis(0)), SegmentFacts(Offset(9), 100, Millis(0))]
    log: Any = Stub(topic_partition=WHERE, log_start_offset=Offset(0), log_end_offset=Offset(9), high_watermark=9)
    log.config = Stub(retention_bytes=retention_bytes, retention_ms=-1)
    log.segments = Stub(facts=lambda end: facts)
    reader: Any = Stub(look_up=lambda read: read())
    retention = LogRetention(log, Stub(), Stub(), reader)  # type: ignore[arg-type]
    model, failures = Stub(deleted=3), list[Violation]()
    world: Any = Stub(machines={}, model=Stub(partitions={WHERE: model}), notes=Stub(add=lambda *values: None))
    world.fail = failures.append
    with ExitStack() as stack:
        ReplicaChecks(world)._watch(stack)
        with pytest.raises(Crash):
            retention.delete_old_segments(Millis(1))
    assert model.deleted == 5
    assert [failure.invariant for failure in failures] == ([4] if is_found else [])
