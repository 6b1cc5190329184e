"""The cluster of brokers in a test's process: what clients see when brokers are killed, paused and cut off."""

from __future__ import annotations

import itertools
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka import KafkaError as ClientError
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.group_coordinator import committed_by_group
from tests.support.patience import Limit
from tests.support.wire import Wire

from klamm import KlammError
from klamm.broker.server import BrokerServer
from klamm.broker.start_failure import StartFailed
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.find_coordinator_response import FindCoordinatorResponse
from klamm.protocol.schema.list_transactions_request import ListTransactionsRequest
from klamm.protocol.schema.list_transactions_response import ListTransactionsResponse
from klamm.testing import Broker, Cluster

TOPIC = "orders"
PARTITIONS = 6
PATIENCE_S = 30.0
SESSION_S = 0.6
_TRANSACTION = 1


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[Cluster]:
    """Runs a cluster with a topic that has two partitions on each broker. Each broker coordinates some groups. A test
    brings every broker back."""
    config = {"offsets.topic.num.partitions": "3"}
    with Cluster(brokers=3, session_timeout_ms=int(SESSION_S * 1000), config=config) as cluster:
        _create_topic(cluster)
        # Creates the topic of the offsets while all brokers are there.
        admin = AdminClient(_client(cluster))
        admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("first")])["first"].result(PATIENCE_S)
        yield cluster


def _wait(is_true: Callable[[], bool]) -> None:
    limit = Limit(PATIENCE_S)
    while not is_true():
        assert not limit.is_over
        time.sleep(0.01)


async def _live_brokers(server: BrokerServer) -> set[int]:
    assert server.context is not None
    return set(server.context.metadata.image.brokers)


def _client(cluster: Cluster | Broker, **config: Any) -> dict[str, Any]:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    return {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, "reconnect.backoff.max.ms": 200, **settings}


def _create_topic(cluster: Cluster | Broker) -> None:
    admin = AdminClient(_client(cluster))
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result()


def _write(cluster: Cluster, values: list[str], **config: Any) -> None:
    producer = Producer(_client(cluster, **config))
    for number, value in enumerate(values):
        producer.produce(TOPIC, value, partition=number % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0


def _text(message: Message) -> str:
    value = message.value()
    assert value is not None
    return value.decode()


def _read_all(cluster: Cluster, count: int, prefix: str) -> list[str]:
    """Reads `count` values with that prefix from all partitions."""
    consumer = Consumer(_client(cluster, group_id="reader", isolation_level="read_committed"))
    consumer.assign([TopicPartition(TOPIC, index, OFFSET_BEGINNING) for index in range(PARTITIONS)])
    found: list[str] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is None and _text(message).startswith(prefix):
            found.append(_text(message))
    consumer.close()
    return sorted(found)


class _Member:
    """A member of a group that polls when the test lets it."""

    def __init__(self, cluster: Cluster | Broker, group: str, protocol: str) -> None:
        # A member of the consumer protocol gets its interval from the coordinator, and may not set it.
        interval = {"heartbeat_interval_ms": 100} if protocol == "classic" else {}
        self._consumer = Consumer(
            _client(cluster, group_id=group, group_protocol=protocol, auto_offset_reset="latest", **interval)
        )
        self.revocations = 0
        self._consumer.subscribe([TOPIC], on_revoke=self._on_revoke, on_lost=self._on_revoke)

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.revocations += 1

    @property
    def id(self) -> str:
        return str(self._consumer.memberid())

    @property
    def has_all(self) -> bool:
        """Polls once, and returns whether the member has all partitions."""
        self._consumer.poll(0.05)
        return len(self._consumer.assignment()) == PARTITIONS

    def has_rebalanced(self, is_seen: Callable[[], bool]) -> bool:
        """Polls once, and returns whether the rebalance is seen."""
        self._consumer.poll(0.05)
        return is_seen()

    def close(self) -> None:
        self._consumer.close()


def _causes(cluster: Cluster | Broker, group: str) -> list[str]:
    """Returns the causes of all changes of the group, from its history."""
    consumer = Consumer(_client(cluster, group_id="historian", enable_partition_eof=True))
    left = set(consumer.list_topics("__group_history", PATIENCE_S).topics["__group_history"].partitions)
    consumer.assign([TopicPartition("__group_history", index, OFFSET_BEGINNING) for index in left])
    causes = []
    while left:
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        if (error := message.error()) is not None:
            assert error.code() == ClientError._PARTITION_EOF, error
            left.discard(message.partition())
        elif message.value() is not None and (change := json.loads(_text(message))).get("group") == group:
            causes += [cause["code"] for cause in change["causes"]]
    consumer.close()
    return causes


def _group_of_each_broker(cluster: Cluster, prefix: str) -> dict[int, str]:
    """Returns the name of a group for each broker, which coordinates it."""
    found: dict[int, str] = {}
    for number in itertools.count():
        coordinator = cluster.coordinator_of(name := f"{prefix}-{number}")
        assert coordinator is not None
        found.setdefault(coordinator, name)
        if len(found) == len(cluster.brokers):
            return found
    raise AssertionError("the loop ends with a return")


class _Transactions:
    """Producers of transactions that the same broker coordinates."""

    def __init__(self, cluster: Cluster, *names: str) -> None:
        self._cluster = cluster
        self._producers: dict[str, Producer] = {}
        for name in names:
            self._producers[name] = Producer(_client(cluster, transactional_id=name, retry_backoff_ms=20))
            self._producers[name].init_transactions(PATIENCE_S)
        with Wire(cluster.address_of(1)) as wire:
            request = FindCoordinatorRequest(key_type=_TRANSACTION, coordinator_keys=[names[0]])
            self.coordinator = int(wire.call(FindCoordinatorResponse, 4, request).coordinators[0].node_id)

    def write(self, name: str, brokers: set[int]) -> list[str]:
        """Begins a transaction of the producer, and writes a value into each partition of these brokers."""
        self._producers[name].begin_transaction()
        values = [f"{name}-{index}" for index in range(PARTITIONS) if self._cluster.leader_of(TOPIC, index) in brokers]
        for value in values:
            self._producers[name].produce(TOPIC, value, partition=int(value.rpartition("-")[2]))
        assert self._producers[name].flush(PATIENCE_S) == 0
        return values

    def commit(self, name: str) -> None:
        self._producers[name].commit_transaction(PATIENCE_S)

    def state(self, name: str) -> str:
        with Wire(self._cluster.address_of(self.coordinator)) as wire:
            found = wire.call(ListTransactionsResponse, 1, ListTransactionsRequest(duration_filter=-1))
        return {each.transactional_id: each.transaction_state for each in found.transaction_states}[name]


def _broker_threads() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name.startswith("klamm-broker-")}


class TestLife:
    """Starts and stops."""

    def test_each_broker_leads_its_share(self, shared_cluster: Cluster) -> None:
        """Every broker is in the metadata, with its own address, and leads a third of the partitions."""
        found = AdminClient(_client(shared_cluster)).list_topics(timeout=PATIENCE_S)
        assert {broker.id: f"{broker.host}:{broker.port}" for broker in found.brokers.values()} == {
            broker: shared_cluster.address_of(broker) for broker in shared_cluster.brokers
        }
        leaders = [found.topics[TOPIC].partitions[index].leader for index in range(PARTITIONS)]
        assert {broker: leaders.count(broker) for broker in (1, 2, 3)} == {1: 2, 2: 2, 3: 2}
        assert leaders == [shared_cluster.leader_of(TOPIC, index) for index in range(PARTITIONS)]

    def test_a_stopped_cluster_leaves_nothing(self) -> None:
        """After the block the folder is gone, and each method says that the cluster is not running."""
        with Cluster(brokers=2) as cluster:
            folder = cluster.data_dir_of(2)
            assert folder.is_dir()
        assert not folder.exists()
        with pytest.raises(KlammError, match="not running"):
            cluster.kill(1)
        with pytest.raises(KlammError, match="the cluster has"):
            cluster.address_of(3)

    def test_a_broker_is_added(self, tmp_path: Path) -> None:
        """An added broker gets the next id, which is never given again, takes its share of new topics, and keeps its
        place over a restart."""
        with Cluster(brokers=2, data_dir=tmp_path) as cluster:
            assert cluster.add_broker() == 3
            _create_topic(cluster)
            assert {cluster.leader_of(TOPIC, index) for index in range(PARTITIONS)} == {1, 2, 3}
            cluster.kill(3)
            assert cluster.add_broker() == 4
            cluster.restart(3)
            _write(cluster, [f"wide-{number}" for number in range(12)])
            assert len(_read_all(cluster, 12, "wide-")) == 12
            assert cluster.brokers == [1, 2, 3, 4]
            assert (tmp_path / "broker-4").is_dir()

    @pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets two sockets share a port")
    def test_no_other_program_gets_the_port_of_a_killed_broker(self) -> None:
        """The system gives the port to no other socket while the broker is away."""
        with Cluster(brokers=2) as cluster:
            port = int(cluster.address_of(2).rpartition(":")[2])
            cluster.kill(2)
            with socket.socket() as other, pytest.raises(OSError, match="in use"):
                other.bind(("127.0.0.1", port))
            cluster.restart(2)
            assert cluster.run_in_broker(2, _live_brokers) == {1, 2}

    def test_a_broker_that_can_not_come_back(self, tmp_path: Path) -> None:
        """If a broker can't start again after its session has ended, the next call that needs it says why."""
        with Cluster(brokers=2, session_timeout_ms=100, data_dir=tmp_path) as cluster:
            cluster.pause(2)
            _wait(lambda: cluster.run_in_broker(1, _live_brokers) == {1})
            properties = tmp_path / "broker-2" / "meta.properties"
            properties.write_text(properties.read_text().replace("node.id=2", "node.id=7"))
            cluster.resume(2)

            def has_failed() -> bool:
                try:
                    cluster.run_in_broker(2, _live_brokers)
                except KlammError as error:
                    return "belongs to the broker with node.id=7" in str(error)
                return False

            _wait(has_failed)

    def test_brokers_that_can_not_start(self, tmp_path: Path) -> None:
        """The start raises what the first broker could not do, ends the others, and works when it is mended."""
        for name in ("broker-1", "broker-3"):
            (tmp_path / name).touch()
        running = _broker_threads()
        cluster = Cluster(brokers=3, data_dir=tmp_path)
        with pytest.raises(StartFailed, match="broker-1 is a file"):
            cluster.start()
        assert _broker_threads() == running
        for name in ("broker-1", "broker-3"):
            (tmp_path / name).unlink()
        with cluster:
            assert AdminClient(_client(cluster)).list_topics(timeout=PATIENCE_S).brokers.keys() == {1, 2, 3}


class TestFailures:
    """Brokers that are killed, paused and cut off."""

    def test_a_killed_broker_takes_its_partitions_away_until_it_is_back(self, shared_cluster: Cluster) -> None:
        """The others say at once that the partitions have no leader; what was acknowledged is there after the start."""
        values = [f"killed-{number}" for number in range(60)]
        _write(shared_cluster, values, acks="all")
        shared_cluster.kill(2)
        found = AdminClient(_client(shared_cluster)).list_topics(TOPIC, timeout=PATIENCE_S)
        assert sorted(found.brokers) == [1, 3]
        away = [each for each in found.topics[TOPIC].partitions.values() if each.leader == -1]
        assert len(away) == 2
        assert all(each.error is not None and each.error.name() == "LEADER_NOT_AVAILABLE" for each in away)
        shared_cluster.restart(2)
        assert _read_all(shared_cluster, 60, "killed-") == sorted(values)

    def test_a_producer_goes_on_when_a_broker_starts_again(self, shared_cluster: Cluster) -> None:
        """A producer that writes while a broker is killed and started again loses and repeats nothing."""
        producer = Producer(_client(shared_cluster, enable_idempotence=True, retry_backoff_ms=20))
        values = [f"again-{number}" for number in range(600)]
        for number, value in enumerate(values):
            producer.produce(TOPIC, value, partition=number % PARTITIONS)
            if number == 200:
                producer.poll(0.05)
                shared_cluster.kill(1)
            if number == 400:
                shared_cluster.restart(1)
        assert producer.flush(PATIENCE_S) == 0
        assert _read_all(shared_cluster, 600, "again-") == sorted(values)

    def test_a_paused_broker_is_gone_after_its_session(self, shared_cluster: Cluster) -> None:
        """A paused broker answers nothing; after the session timeout the others miss it; resumed, it is back."""
        partition = next(index for index in range(PARTITIONS) if shared_cluster.leader_of(TOPIC, index) == 3)
        began = time.monotonic()
        shared_cluster.pause(3)
        leader = shared_cluster.leader_of(TOPIC, partition)
        assert leader == 3 or time.monotonic() - began > SESSION_S
        _wait(lambda: shared_cluster.leader_of(TOPIC, partition) is None)
        with pytest.raises(KlammError, match="paused already"):
            shared_cluster.pause(3)
        shared_cluster.resume(3)
        _wait(lambda: shared_cluster.leader_of(TOPIC, partition) == 3)
        _write(shared_cluster, ["paused-0"] * PARTITIONS)

    def test_the_first_broker_starts_again_after_its_session(self) -> None:
        """The cluster tells who leads while the first broker, which it asks first, starts again."""
        with Cluster(brokers=2, session_timeout_ms=100) as cluster:
            _create_topic(cluster)
            partition = next(index for index in range(PARTITIONS) if cluster.leader_of(TOPIC, index) == 1)
            threads = _broker_threads()
            cluster.pause(1)
            _wait(lambda: cluster.leader_of(TOPIC, partition) is None)
            cluster.resume(1)
            _wait(lambda: not threads <= _broker_threads())
            _wait(lambda: cluster.leader_of(TOPIC, partition) == 1)

    def test_a_paused_broker_that_is_killed_answers_nothing(self, shared_cluster: Cluster) -> None:
        """A record that is sent to a paused broker is neither acknowledged nor written when the broker is killed."""
        partition = next(index for index in range(PARTITIONS) if shared_cluster.leader_of(TOPIC, index) == 2)
        patient = Producer(_client(shared_cluster))
        patient.produce(TOPIC, "stopped-1", partition=partition)
        assert patient.flush(PATIENCE_S) == 0
        producer = Producer(_client(shared_cluster, message_timeout_ms=1500, retries=0, linger_ms=0))
        producer.list_topics(TOPIC, PATIENCE_S)
        shared_cluster.pause(2)
        errors: list[object] = []
        producer.produce(
            TOPIC, "stopped-2", partition=partition, on_delivery=lambda error, message: errors.append(error)
        )
        producer.poll(0.2)
        shared_cluster.kill(2)
        assert producer.flush(PATIENCE_S) == 0
        assert len(errors) == 1
        assert errors[0] is not None
        shared_cluster.restart(2)
        patient.produce(TOPIC, "stopped-3", partition=partition)
        assert patient.flush(PATIENCE_S) == 0
        assert _read_all(shared_cluster, 2, "stopped-") == ["stopped-1", "stopped-3"]

    def test_a_transaction_waits_for_a_broker_that_is_cut_off(self, shared_cluster: Cluster) -> None:
        """A commit whose markers can't be delivered is not lost: it is prepared while the cut lasts, and its markers
        are written when the cut is over. One cut ends without the other."""
        transactions = _Transactions(shared_cluster, "waiting", "complete")
        near, far = sorted({1, 2, 3} - {transactions.coordinator})
        values = transactions.write("waiting", {1, 2, 3})
        shared_cluster.cut(near, transactions.coordinator)
        shared_cluster.cut(transactions.coordinator, far)
        transactions.commit("waiting")
        transactions.write("complete", {transactions.coordinator})
        transactions.commit("complete")
        _wait(lambda: transactions.state("complete") == "CompleteCommit")
        assert len(_read_all(shared_cluster, 2, "waiting-")) == 2
        shared_cluster.heal(transactions.coordinator, near)
        assert len(_read_all(shared_cluster, 4, "waiting-")) == 4
        transactions.write("complete", {transactions.coordinator, near})
        transactions.commit("complete")
        _wait(lambda: transactions.state("complete") == "CompleteCommit")
        assert transactions.state("waiting") == "PrepareCommit"
        shared_cluster.heal()
        _wait(lambda: transactions.state("waiting") == "CompleteCommit")
        assert _read_all(shared_cluster, PARTITIONS, "waiting-") == values

    def test_a_cut_in_one_direction(self, shared_cluster: Cluster) -> None:
        """While only the coordinator can't reach the other broker, that broker reaches the coordinator: it asks about a
        transaction before it takes its first record. The markers wait until the brokers are connected again."""
        transactions = _Transactions(shared_cluster, "held", "free")
        cut_off, other = sorted({1, 2, 3} - {transactions.coordinator})
        transactions.write("held", {cut_off})
        shared_cluster.cut(transactions.coordinator, cut_off, one_way=True)
        transactions.commit("held")
        transactions.write("free", {other})
        transactions.commit("free")
        _wait(lambda: transactions.state("free") == "CompleteCommit")
        assert transactions.state("held") == "PrepareCommit"
        transactions.write("free", {cut_off, other})
        shared_cluster.heal(cut_off, transactions.coordinator)
        _wait(lambda: transactions.state("held") == "CompleteCommit")
        transactions.commit("free")
        _wait(lambda: transactions.state("free") == "CompleteCommit")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
class TestGroups:
    """Groups that rebalance, lose members, and lose their coordinator."""

    def test_a_group_rebalances_on_demand(self, protocol: str) -> None:
        """The group gets a new generation or epoch, and its history says that an administrator asked for it."""
        with Broker() as broker:
            _create_topic(broker)
            member = _Member(broker, "on-demand", protocol)
            _wait(lambda: member.has_all)
            broker.rebalance("on-demand")
            _wait(lambda: member.has_rebalanced(lambda: _causes(broker, "on-demand")[-1:] == ["admin"]))
            _wait(lambda: member.has_all)
            assert member.revocations == (1 if protocol == "classic" else 0)
            member.close()

    def test_groups_of_every_broker_rebalance_on_demand(self, shared_cluster: Cluster, protocol: str) -> None:
        """A group rebalances once when it is asked to, whichever broker coordinates it, and its members keep on."""
        groups = _group_of_each_broker(shared_cluster, f"each-{protocol}")
        members = {group: _Member(shared_cluster, group, protocol) for group in groups.values()}
        _wait(lambda: {member.has_all for member in members.values()} == {True})  # polls all of them
        for group, member in members.items():
            shared_cluster.rebalance(group)
            _wait(lambda: member.has_rebalanced(lambda: _causes(shared_cluster, group)[-1:] == ["admin"]))  # noqa: B023
        _wait(lambda: {member.has_all for member in members.values()} == {True})  # polls all of them
        for group, member in members.items():
            assert _causes(shared_cluster, group).count("admin") == 1
            assert member.revocations == (1 if protocol == "classic" else 0)
            member.close()

    def test_a_fenced_member_joins_again(self, shared_cluster: Cluster, protocol: str) -> None:
        """A fenced member loses its partitions, and gets them again under a new membership."""
        member = _Member(shared_cluster, f"fenced-{protocol}", protocol)
        _wait(lambda: member.has_all)
        shared_cluster.fence(f"fenced-{protocol}", member.id)
        _wait(lambda: member.has_rebalanced(lambda: member.revocations == 1))
        _wait(lambda: member.has_all)
        with pytest.raises(KafkaError) as refused:
            shared_cluster.fence(f"fenced-{protocol}", "nobody")
        assert refused.value.code is ErrorCode.UNKNOWN_MEMBER_ID
        member.close()

    def test_a_group_goes_on_when_its_coordinator_is_back(self, shared_cluster: Cluster, protocol: str) -> None:
        """Committed offsets outlast a kill of the group's coordinator, and its member keeps its partitions."""
        group = f"moved-{protocol}"
        member = _Member(shared_cluster, group, protocol)
        _wait(lambda: member.has_all)
        member._consumer.commit(offsets=[TopicPartition(TOPIC, 0, 7)], asynchronous=False)
        coordinator = shared_cluster.coordinator_of(group)
        assert coordinator is not None
        shared_cluster.kill(coordinator)
        assert shared_cluster.coordinator_of(group) is None
        with pytest.raises(KafkaError) as refused:
            shared_cluster.rebalance(group)
        assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        shared_cluster.restart(coordinator)
        reader = Consumer(_client(shared_cluster, group_id=group))
        assert [each.offset for each in committed_by_group(reader, [TopicPartition(TOPIC, 0)])] == [7]
        reader.close()
        _wait(lambda: member.has_all)
        member.close()


def test_the_group_of_a_paused_coordinator(shared_cluster: Cluster) -> None:
    """A paused coordinator answers nothing, so the group can't be acted on. The call does not wait for `resume`."""
    member = _Member(shared_cluster, "of-a-paused-broker", "classic")
    _wait(lambda: member.has_all)
    coordinator = shared_cluster.coordinator_of("of-a-paused-broker")
    assert coordinator is not None
    shared_cluster.pause(coordinator)
    try:
        for act in (shared_cluster.rebalance, lambda group: shared_cluster.fence(group, member.id)):
            with pytest.raises(KafkaError) as refused:
                act("of-a-paused-broker")
            assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    finally:
        shared_cluster.resume(coordinator)
    _wait(lambda: shared_cluster.coordinator_of("of-a-paused-broker") == coordinator)
    member.close()


def test_the_errors_of_an_unknown_group(shared_cluster: Cluster) -> None:
    """A group that does not exist can't be rebalanced, and an unreachable cluster says so."""
    with pytest.raises(KafkaError) as refused:
        shared_cluster.rebalance("no such group")
    assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    with Cluster(brokers=1) as alone:
        alone.kill(1)
        admin = AdminClient(_client(alone))
        with pytest.raises(KafkaException):
            admin.list_topics(timeout=0.3)
