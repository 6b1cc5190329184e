"""Replicated partitions of a cluster in a test's process, as real clients see them when brokers die and come back."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.failing_calls import failing
from tests.support.group_coordinator import committed_by_group
from tests.support.patience import Limit
from tests.support.watermarks import watermarks_of
from tests.support.wire import Wire

from klamm import KlammError
from klamm.broker.replication.failed_logs import FailedLogs
from klamm.broker.replication.replication_metrics import replication_figures
from klamm.broker.server import BrokerServer
from klamm.metadata.image import NO_BROKER, PartitionImage
from klamm.protocol.errors import KafkaError as KlammKafkaError
from klamm.protocol.schema.describe_topic_partitions_request import DescribeTopicPartitionsRequest, TopicRequest
from klamm.protocol.schema.describe_topic_partitions_response import DescribeTopicPartitionsResponse
from klamm.testing import Cluster

TOPIC = "orders"
PATIENCE_S = 30.0
ALL = {1, 2, 3}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(3, replication_factor=3, config={"min.insync.replicas": "2"}, session_timeout_ms=600) as running:
        _create(running)
        yield running


def _wait(is_true: Callable[[], bool]) -> None:
    limit = Limit(PATIENCE_S)
    while not is_true():
        assert not limit.is_over
        time.sleep(0.02)


def _kill(cluster: Cluster, broker: int) -> None:
    """Kills a broker, and waits until it is not in sync any more: the others decide that after they have missed it."""
    cluster.kill(broker)
    _wait(lambda: broker not in _in_sync(cluster))


def _client(cluster: Cluster, **config: Any) -> dict[str, Any]:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    return {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, "reconnect.backoff.max.ms": 200, **settings}


def _create(cluster: Cluster, replicas: int = 3) -> None:
    admin = AdminClient(_client(cluster))
    admin.create_topics([NewTopic(TOPIC, 1, replicas)])[TOPIC].result()


def _produce(cluster: Cluster, values: range, **config: Any) -> list[int]:
    """Writes the values with acks=all, and returns the codes of those that failed."""
    failed: list[int] = []

    def told(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(error.code())

    producer = Producer(_client(cluster, **({"acks": "all", "enable_idempotence": True} | config)))
    for value in values:
        producer.produce(TOPIC, str(value), callback=told)
    assert producer.flush(PATIENCE_S) == 0
    return failed


def _in_sync(cluster: Cluster) -> set[int]:
    admin = AdminClient(_client(cluster))
    metadata = admin.list_topics(TOPIC, timeout=PATIENCE_S)
    return set(metadata.topics[TOPIC].partitions[0].isrs)


def _leader(cluster: Cluster) -> int:
    leader = cluster.leader_of(TOPIC, 0)
    assert leader is not None
    return leader


def _read(cluster: Cluster, count: int) -> list[int]:
    consumer = Consumer(_client(cluster, group_id="readers", auto_offset_reset="earliest"))
    consumer.subscribe([TOPIC])
    values: list[int] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(values) < count and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            value = message.value()
            assert value is not None
            values.append(int(value))
    consumer.commit(asynchronous=False)
    consumer.close()
    return values


def _are_equal(cluster: Cluster) -> bool:
    """Returns whether all replicas hold the same bytes."""
    folders = [cluster.data_dir_of(broker) / f"{TOPIC}-0" for broker in cluster.brokers]
    return len({b"".join(path.read_bytes() for path in sorted(each.glob("*.log"))) for each in folders}) == 1


def test_another_broker_takes_over_without_loss(cluster: Cluster) -> None:
    """I3: the leader is killed again and again; every acknowledged record is there once and in order, and all replicas
    hold the same bytes in the end (I2)."""
    for step in range(3):
        leader = _leader(cluster)
        assert not _produce(cluster, range(500 * step, 500 * step + 250))
        cluster.kill(leader)
        assert not _produce(cluster, range(500 * step + 250, 500 * step + 500))
        assert _leader(cluster) != leader
        cluster.restart(leader)
        _wait(lambda: _in_sync(cluster) == ALL)
    assert _read(cluster, 1500) == list(range(1500))
    _wait(lambda: _are_equal(cluster))


def test_clean_restart_of_each_broker_costs_no_record(cluster: Cluster) -> None:
    """A broker that is stopped hands its partitions over first; producers see at most retries."""
    for step, broker in enumerate(cluster.brokers):
        cluster.restart(broker)
        assert not _produce(cluster, range(100 * step, 100 * step + 100))
        _wait(lambda: _in_sync(cluster) == ALL)
    assert _read(cluster, 300) == list(range(300))


def test_group_goes_on_with_its_commits_after_its_coordinator_died(cluster: Cluster) -> None:
    """I17: the commits of a group are replicated, and another broker coordinates the group."""
    _produce(cluster, range(100))
    assert len(_read(cluster, 100)) == 100
    coordinator = cluster.coordinator_of("readers")
    assert coordinator is not None
    cluster.kill(coordinator)
    consumer = Consumer(_client(cluster, group_id="readers"))
    (found,) = committed_by_group(consumer, [TopicPartition(TOPIC, 0)])
    assert found.offset == 100
    consumer.close()
    assert cluster.coordinator_of("readers") not in (None, coordinator)


@pytest.mark.parametrize("is_power_lost", [False, True])
def test_all_brokers_die(cluster: Cluster, is_power_lost: bool) -> None:
    """I3: the brokers still have what they wrote, unless their machines were restarted. So one that was killed is an
    eligible leader replica, and leads without the last known leader. After a power failure only that one leads."""
    assert not _produce(cluster, range(300))
    first, second, last = cluster.brokers
    for broker in (first, second, last):
        if broker == last:
            cluster.kill(broker)
        else:
            _kill(cluster, broker)
        if is_power_lost:
            mark = cluster.data_dir_of(broker) / ".klamm-run"
            mark.write_text(mark.read_text().replace('"boot_id": "', '"boot_id": "another '))
    cluster.restart(first)
    cluster.restart(second)
    if is_power_lost:
        partition = cluster.run_in_broker(first, _partition)
        assert (partition.leader, partition.last_known_leader) == (NO_BROKER, last)
        cluster.restart(last)
    _wait(lambda: cluster.leader_of(TOPIC, 0) is not None)
    assert _leader(cluster) == (last if is_power_lost else second)
    assert _read(cluster, 300) == list(range(300))


async def _partition(server: BrokerServer) -> PartitionImage:
    assert server.context is not None
    return server.context.metadata.image.topics[TOPIC].partitions[0]


def test_too_few_replicas_refuse_writes_and_accept_them_again(cluster: Cluster) -> None:
    """I4: with fewer in-sync replicas than `min.insync.replicas`, writes with acks=all fail until one is back."""
    assert not _produce(cluster, range(10))
    leader = _leader(cluster)
    others = [broker for broker in cluster.brokers if broker != leader]
    for broker in others:
        _kill(cluster, broker)
    assert _in_sync(cluster) == {leader}
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=TOPIC)])
    with Wire(cluster.address_of(leader)) as wire:
        (described,) = wire.call(DescribeTopicPartitionsResponse, 0, request).topics[0].partitions
    # The second one left when there were too few already: it holds all that is committed (KIP-966).
    assert described.eligible_leader_replicas == [others[1]]
    failed = _produce(cluster, range(10, 11), message_timeout_ms=1500, enable_idempotence=False)
    assert failed == [KafkaError._MSG_TIMED_OUT]
    cluster.restart(others[0])
    _wait(lambda: len(_in_sync(cluster)) == 2)
    assert not _produce(cluster, range(20, 30))


def test_follower_that_hangs_leaves_and_catches_up(cluster: Cluster) -> None:
    """A follower whose session ends leaves the in-sync replicas, so that writes go on, and joins again later."""
    leader = _leader(cluster)
    follower = next(broker for broker in cluster.brokers if broker != leader)
    cluster.pause(follower)
    failed = _produce(cluster, range(50))
    cluster.resume(follower)
    assert not failed
    _wait(lambda: _in_sync(cluster) == ALL)
    _wait(lambda: _are_equal(cluster))


def test_follower_counts_only_what_is_on_its_disk() -> None:
    """With `klamm.fsync=ack` the records of followers are synced before they are committed."""
    with Cluster(3, replication_factor=3, config={"klamm.fsync": "ack"}) as cluster:
        _create(cluster)
        assert not _produce(cluster, range(200))
        assert _read(cluster, 200) == list(range(200))


@pytest.mark.parametrize("fsync", ["os", "ack"])
def test_follower_goes_on_behind_a_batch_that_was_damaged_for_a_while(fsync: str) -> None:
    """A follower keeps the batches before a damaged one, asks for the damaged one again, and catches up once the leader
    sends it whole."""
    with Cluster(2, replication_factor=2, config={"klamm.fsync": fsync, "min.insync.replicas": "1"}) as cluster:
        _create(cluster, replicas=2)
        leader = _leader(cluster)
        (follower,) = {1, 2} - {leader}
        assert not _produce(cluster, range(1))
        cluster.kill(follower)
        assert not _produce(cluster, range(1, 2))
        file = cluster.data_dir_of(leader) / f"{TOPIC}-0" / f"{0:020}.log"
        whole = file.read_bytes()
        assert not _produce(cluster, range(2, 3))
        position = len(file.read_bytes()) - 2
        good = file.read_bytes()[position]
        _write_at(file, position, good ^ 255)
        cluster.restart(follower)
        copy = cluster.data_dir_of(follower) / f"{TOPIC}-0" / file.name
        _wait(lambda: copy.read_bytes() == whole)
        time.sleep(0.3)
        assert copy.read_bytes() == whole
        _write_at(file, position, good)
        _wait(lambda: _in_sync(cluster) == {1, 2})
        assert _are_equal(cluster)


@pytest.mark.parametrize("is_leader", [True, False])
def test_a_replica_whose_log_goes_offline_gives_up_its_places(cluster: Cluster, is_leader: bool) -> None:
    """A broker whose disk fails for one partition stays in the cluster. Another broker leads the partition, clients go
    on, and the failed replica is not in sync until the broker has started again. Its metrics count the replica."""
    assert not _produce(cluster, range(300))
    leader = _leader(cluster)
    failed = leader if is_leader else next(broker for broker in cluster.brokers if broker != leader)
    cluster.run_in_broker(failed, _fail_log)
    _wait(lambda: _in_sync(cluster) == ALL - {failed})
    assert not _produce(cluster, range(300, 400))
    assert _leader(cluster) != failed
    assert _read(cluster, 400) == list(range(400))
    assert _in_sync(cluster) == ALL - {failed}
    counts = {broker: _figures(cluster, broker)["offlinereplicacount"] for broker in cluster.brokers}
    assert counts == dict.fromkeys(ALL, 0) | {failed: 1}
    cluster.kill(failed)
    cluster.restart(failed)
    _wait(lambda: _in_sync(cluster) == ALL)
    assert _figures(cluster, failed)["offlinereplicacount"] == 0
    _wait(lambda: _are_equal(cluster))


def test_a_leader_whose_log_is_offline_keeps_its_followers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader can't give up its place at once, for example because the metadata store is away. Followers can't fetch
    from its log, and seem to lag; they stay in sync, so that one of them leads as soon as the store is back."""
    waiting: list[Any] = []
    monkeypatch.setattr(FailedLogs, "add", lambda self, topic_partition: waiting.append((self, topic_partition)))
    with Cluster(3, replication_factor=3, config={"min.insync.replicas": "1"}, session_timeout_ms=600) as cluster:
        _create(cluster)
        assert not _produce(cluster, range(10))
        leader = _leader(cluster)
        for follower in ALL - {leader}:
            cluster.cut(leader, follower)
        assert not _produce(cluster, range(10, 20), acks=1, enable_idempotence=False)  # now the followers lack records
        cluster.run_in_broker(leader, _fail_log)
        cluster.heal()
        _wait(lambda: bool(waiting))
        cluster.run_in_broker(leader, _tolerate_little_lag)  # now, because the followers really lagged before
        time.sleep(3)
        assert _in_sync(cluster) == ALL
        monkeypatch.undo()

        async def give_up(_: BrokerServer) -> None:
            for failed_logs, topic_partition in waiting:
                failed_logs.add(topic_partition)

        cluster.run_in_broker(leader, give_up)
        _wait(lambda: _leader(cluster) not in (leader, NO_BROKER))
        assert _read(cluster, 10) == list(range(10))


async def _tolerate_little_lag(server: BrokerServer) -> None:
    """Sets `replica.lag.time.max.ms`, and lets the broker check the lag of followers with it."""
    dynamic_config = server.services.dynamic_config
    dynamic_config.current = replace(dynamic_config.current, replica_lag_time_max_ms=1500)
    assert server.services.replication is not None
    server.services.replication._lag_check._is_due.set()


def test_a_disk_that_only_reads_is_not_trusted_later(cluster: Cluster) -> None:
    """The mark of the run can't be removed when a log goes offline: the metadata say that the run may lack records."""
    broker = cluster.brokers[0]
    mark = cluster.data_dir_of(broker) / ".klamm-run"
    with failing("unlink", errno.EROFS):
        cluster.run_in_broker(broker, _fail_log)
    assert mark.exists()
    _wait(lambda: not cluster.run_in_broker(broker, _registered_run))
    cluster.restart(broker)
    assert cluster.run_in_broker(broker, _registered_run)


async def _registered_run(server: BrokerServer) -> str:
    assert server.context is not None
    return server.context.metadata.image.brokers[server.context.node_id].latest_run


async def _fail_log(server: BrokerServer) -> None:
    assert server.context is not None
    (log,) = (log for key, log in server.context.log_directory.logs.items() if key.topic == TOPIC)
    log.state.mark_offline("its disk fails")


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_replica_that_is_lost_or_damaged_at_the_start_is_copied_again(cluster: Cluster, is_gone: bool) -> None:
    """A broker whose partition is gone, or has no readable segment, gets it from the leader, and keeps what was damaged
    aside. It leads only after that."""
    assert not _produce(cluster, range(300))
    leader = _leader(cluster)
    follower = next(broker for broker in cluster.brokers if broker != leader)
    _wait(lambda: _are_equal(cluster))
    cluster.run_in_broker(follower, _sync_and_checkpoint)
    _kill(cluster, follower)
    folder = cluster.data_dir_of(follower) / f"{TOPIC}-0"
    if is_gone:
        shutil.rmtree(folder)
    else:
        _write_at(folder / f"{0:020}.log", 70, 255)
        os.truncate(folder / f"{0:020}.log", 100)
    cluster.restart(follower)
    _wait(lambda: _in_sync(cluster) == ALL)
    assert _are_equal(cluster)
    assert len(list(folder.parent.glob("*-stray"))) == (0 if is_gone else 1)
    cluster.move_leader(TOPIC, 0, follower)
    assert _read(cluster, 300) == list(range(300))


def test_a_new_topic_has_the_name_of_a_damaged_one(cluster: Cluster) -> None:
    """A topic is deleted while a broker with a damaged replica of it is away. The broker copies the next topic of that
    name, and takes nothing of it for damaged."""
    assert not _produce(cluster, range(300))
    leader = _leader(cluster)
    follower = next(broker for broker in cluster.brokers if broker != leader)
    _wait(lambda: _are_equal(cluster))
    cluster.run_in_broker(follower, _sync_and_checkpoint)
    cluster.kill(follower)
    file = cluster.data_dir_of(follower) / f"{TOPIC}-0" / f"{0:020}.log"
    _write_at(file, 70, 255)
    os.truncate(file, 100)
    admin = AdminClient(_client(cluster))
    admin.delete_topics([TOPIC])[TOPIC].result()
    cluster.restart(follower)
    _create(cluster)
    assert not _produce(cluster, range(300))
    _wait(lambda: _in_sync(cluster) == ALL)
    cluster.move_leader(TOPIC, 0, leader)
    assert not _produce(cluster, range(300, 310))
    _wait(lambda: _are_equal(cluster))
    assert len(list(file.parents[1].glob("*-stray"))) == 1


async def _sync_and_checkpoint(server: BrokerServer) -> None:
    assert server.context is not None
    directory = server.context.log_directory
    for log in directory.logs.values():
        log.flush()
    directory.checkpoint().result()


def _write_at(file: Path, position: int, value: int) -> None:
    with file.open("r+b") as opened:
        opened.seek(position)
        opened.write(bytes([value]))


def test_leader_moves_on_request(cluster: Cluster) -> None:
    """`move_leader` elects another replica; writes go on."""
    for broker in (1, 2, 3, 1):
        cluster.move_leader(TOPIC, 0, broker)
        assert _leader(cluster) == broker
        assert not _produce(cluster, range(20))
    with pytest.raises(KlammKafkaError, match="there is no partition orders-5"):
        cluster.move_leader(TOPIC, 5, 1)


def test_replication_factor_fits_the_brokers() -> None:
    """More replicas than brokers are refused before anything starts."""
    with pytest.raises(KlammError, match="is 1 to 2, not 3"):
        Cluster(2, replication_factor=3)


def test_leaders_return_to_their_preferred_brokers() -> None:
    """After a restart other brokers lead; the controller elects the preferred leaders at intervals."""
    with Cluster(3, replication_factor=3, config={"leader.imbalance.check.interval.seconds": "1"}) as cluster:
        _create(cluster)
        preferred = _leader(cluster)
        before = cluster.run_in_broker(preferred, _partition).leader_epoch
        cluster.restart(preferred)
        # Each leader has an epoch of its own: another one led meanwhile, however short that was.
        _wait(lambda: cluster.run_in_broker(preferred, _partition).leader_epoch >= before + 2)
        _wait(lambda: cluster.leader_of(TOPIC, 0) == preferred)


def test_metrics_tell_of_missing_replicas() -> None:
    """Monitoring sees partitions with replicas that are not in sync, and those that refuse writes."""
    with Cluster(3, replication_factor=3, config={"min.insync.replicas": "3"}) as cluster:
        _create(cluster)
        assert not _produce(cluster, range(10))
        leader = _leader(cluster)
        assert _figures(cluster, leader)["leadercount"] >= 1
        assert _figures(cluster, leader)["underreplicatedpartitions"] == 0
        cluster.kill(next(broker for broker in cluster.brokers if broker != leader))
        _wait(lambda: _figures(cluster, leader)["underminisrpartitioncount"] >= 1)
        assert _figures(cluster, leader)["underreplicatedpartitions"] >= 1


def _figures(cluster: Cluster, broker: int) -> dict[str, float]:
    async def gather(server: BrokerServer) -> dict[str, float]:
        assert server.context is not None
        replication = server.services.replication
        assert replication is not None
        figures = replication_figures(server.context.partitions, replication)
        return {figure.name.rpartition("_")[2]: figure.values[0][1] for figure in figures}

    return cluster.run_in_broker(broker, gather)


def test_records_are_deleted_on_all_replicas(cluster: Cluster) -> None:
    """KIP-107: the answer comes when the live replicas have deleted them; a new leader begins at the same offset."""
    assert not _produce(cluster, range(100))
    admin = AdminClient(_client(cluster))
    deleted = admin.delete_records([TopicPartition(TOPIC, 0, 60)])
    assert [future.result().low_watermark for future in deleted.values()] == [60]
    cluster.kill(_leader(cluster))
    consumer = Consumer(_client(cluster, group_id="readers"))
    assert watermarks_of(consumer, TOPIC) == (60, 100)
    consumer.close()
