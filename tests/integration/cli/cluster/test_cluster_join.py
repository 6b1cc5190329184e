"""`klamm cluster join` with real etcd and brokers: what is there after it, and what a kill at each step leaves."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from tests.integration.cli.cluster.conftest import Start
from tests.integration.cli.conftest import PATIENCE_S, Command, until
from tests.interop.broker_process import BrokerProcess
from tests.support.etcd_server import Etcd
from tests.support.group_coordinator import committed_by_group
from tests.support.share_of_gate import is_in_share_of_gate

from klamm.storage.directory.meta_properties import MetaProperties

pytestmark = pytest.mark.timeout(300)  # each test starts several processes, one after the other

_KILLED_AFTER = """
import os, signal, sys
from pathlib import Path
from klamm.cli.cluster.cluster_join import join
def after(step):
    if step == sys.argv[3]:
        os.kill(os.getpid(), signal.SIGKILL)
join(Path(sys.argv[1]), sys.argv[2], after)
"""


def _admin(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})


def _consumer(broker: BrokerProcess, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )


def _transaction(broker: BrokerProcess, value: str, *, commit: bool) -> None:
    config = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "pay", "log_level": 0}
    producer = Producer(config)
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce("orders", value, partition=0)
    assert producer.flush(PATIENCE_S) == 0
    if commit:
        producer.commit_transaction(PATIENCE_S)
    else:
        producer.abort_transaction(PATIENCE_S)


def _fill(broker: BrokerProcess) -> None:
    """Writes records, transactions and offsets."""
    admin = _admin(broker)
    admin.create_topics([NewTopic("orders", 2, 1, config={"retention.ms": "777777777"})])["orders"].result()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for number in range(20):
        producer.produce("orders", str(number), partition=number % 2)
    assert producer.flush(PATIENCE_S) == 0
    _transaction(broker, "committed", commit=True)
    _transaction(broker, "aborted", commit=False)
    consumer = _consumer(broker, "g")
    consumer.commit(offsets=[TopicPartition("orders", 0, 4)], asynchronous=False)
    consumer.close()


def _check(broker: BrokerProcess) -> None:
    """Checks that everything that `_fill` wrote is there, and that writes go on."""
    consumer = _consumer(broker, "g")
    (committed,) = committed_by_group(consumer, [TopicPartition("orders", 0)])
    assert committed.offset == 4
    consumer.assign([TopicPartition("orders", index, 0) for index in range(2)])
    values = sorted((message.value() or b"").decode() for message in consumer.consume(21, PATIENCE_S))
    assert values == sorted([*map(str, range(20)), "committed"])
    consumer.close()
    admin = _admin(broker)
    (described,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, "orders")]).values()
    assert described.result()["retention.ms"].value == "777777777"


def _join(tmp_path: Path, etcd: Etcd) -> tuple[str, ...]:
    return ("cluster", "join", "--data-dir", str(tmp_path / "one" / "data"), "--metadata", etcd.url())


def test_a_single_broker_becomes_the_first_of_a_cluster(
    etcd: Etcd, start: Start, command: Command, tmp_path: Path
) -> None:
    """Records, transactions, offsets, groups and settings of the single broker are there after the join, under its
    cluster id and broker id. A second broker joins the cluster, and a transactional producer goes on."""
    single = start("one")
    _fill(single)
    busy = command(*_join(tmp_path, etcd))
    assert busy.status == 1
    assert busy.stderr.endswith(" is in use by a broker: stop it first\n")
    single.stop()
    before = MetaProperties.read(tmp_path / "one" / "data")
    assert before is not None

    told = command.done(*_join(tmp_path, etcd))
    assert "start it: klamm serve --data-dir" in told
    again = command(*_join(tmp_path, etcd))
    assert again.status == 1
    assert "belongs to broker" in again.stderr
    with pytest.raises(RuntimeError, match="of a cluster whose metadata is in etcd"):
        start("one")
    with pytest.raises(RuntimeError, match="of a cluster whose metadata is in etcd"):
        start("one", "", "--workers", "2")

    first = start("one", etcd.url())
    _check(first)
    after = MetaProperties.read(tmp_path / "one" / "data")
    assert after is not None
    assert after[:3] == before[:3]
    second = start("two", etcd.url())
    _transaction(second, "more", commit=True)
    admin = _admin(second)
    brokers = admin.list_topics(timeout=PATIENCE_S).brokers
    assert len(brokers) == 2
    assert before.node_id in brokers
    first.stop()
    second.stop()


def test_the_first_start_after_a_join_misses_no_records(
    etcd: Etcd, start: Start, command: Command, tmp_path: Path
) -> None:
    """The single broker was stopped in order, so its logs have all acknowledged records. The broker does not tell that
    some may be missing, which its metrics would repeat as an alert."""
    single = start("one")
    admin = _admin(single)
    admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result()
    single.stop()
    command.done(*_join(tmp_path, etcd))
    first = start("one", etcd.url())
    assert "may lack records" not in first.log()
    first.stop()


@pytest.mark.skipif(
    not is_in_share_of_gate("replicas of a joined cluster", 3), reason="the gate runs it for a third of the commits"
)
def test_replicas_are_added_after_a_join(etcd: Etcd, start: Start, command: Command, tmp_path: Path) -> None:
    """`klamm cluster reassign --replication-factor 3 --internal` gives topics, groups and transactions of the single
    broker two more replicas each. Without the first broker, the others have all of it."""
    single = start("one")
    _fill(single)
    single.stop()
    command.done(*_join(tmp_path, etcd))
    first, second, third = (start(name, etcd.url()) for name in ("one", "two", "three"))
    known = ("-b", second.bootstrap_servers)
    assert {row["replicas"] for row in command.rows("topic", "describe", "orders", *known)} == {"1"}
    command.done("cluster", "reassign", "--replication-factor", "3", "--internal", *known)
    command.done("cluster", "reassign", "orders", "--replication-factor", "3", "--throttle", "50000000", *known)

    def in_sync() -> dict[str, set[tuple[str, ...]]]:
        found: dict[str, set[tuple[str, ...]]] = {}
        for row in command.rows("topic", "describe", *known):
            found.setdefault(row["topic"], set()).add(tuple(sorted(row["isr"].split(","))))
        return found

    expected = {topic: {("1", "2", "3")} for topic in ("orders", "__consumer_offsets", "__transaction_state")}
    until(lambda: in_sync() == expected)
    first.stop()
    _check(second)
    _transaction(third, "more", commit=True)
    second.stop()
    third.stop()


def test_leader_epochs_rise(etcd: Etcd, start: Start, command: Command, tmp_path: Path) -> None:
    """The epoch under which the broker writes after the join is above all epochs before it: clients and followers
    compare epochs."""
    single = start("one")
    _fill(single)
    single.stop()
    single.start()
    _transaction(single, "later", commit=True)
    single.stop()
    command.done(*_join(tmp_path, etcd))
    first = start("one", etcd.url())
    _transaction(first, "joined", commit=True)
    consumer = _consumer(first, "epochs")
    consumer.assign([TopicPartition("orders", 0, 0)])
    epochs = [message.leader_epoch() or 0 for message in consumer.consume(13, PATIENCE_S)]
    consumer.close()
    assert epochs == sorted(epochs)
    assert len(set(epochs)) == 3
    first.stop()


@pytest.mark.parametrize("step", ["copied", "recorded", "completed", "sealed"])
def test_a_kill_at_each_step_loses_nothing(
    step: str, etcd: Etcd, start: Start, command: Command, tmp_path: Path
) -> None:
    """After a kill either the single broker starts, or the join can be repeated; the other kind of start is refused,
    and no other broker uses a part of the metadata."""
    single = start("one")
    _fill(single)
    single.stop()
    data = tmp_path / "one" / "data"
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED_AFTER, str(data), etcd.url(), step], check=False, timeout=PATIENCE_S
    )
    assert killed.returncode == -signal.SIGKILL
    if step in ("copied", "recorded"):
        with pytest.raises(RuntimeError, match="the metadata store is not complete"):
            start("other", etcd.url())
    if step == "copied":
        single.start()
        _transaction(single, "aborted too", commit=False)
        single.stop()
    elif step != "sealed":
        for url in ("", etcd.url()):
            with pytest.raises(RuntimeError, match="`klamm cluster join` was interrupted: run that command again"):
                start("one", url)
        elsewhere = command("cluster", "join", "--data-dir", str(data), "--metadata", etcd.url("elsewhere"))
        assert elsewhere.status == 1
        assert "has begun to join" in elsewhere.stderr
    if step != "sealed":
        command.done(*_join(tmp_path, etcd))
    first = start("one", etcd.url())
    _check(first)
    first.stop()


def test_what_can_not_join_is_refused(etcd: Etcd, start: Start, command: Command, tmp_path: Path) -> None:
    """A folder without a single broker, a folder on which none has run, and a prefix in use are refused."""
    data = tmp_path / "one" / "data"
    nothing = command(*_join(tmp_path, etcd))
    assert nothing.status == 1
    assert "is not the data directory of a single broker" in nothing.stderr
    start("one").stop()
    start("two", etcd.url()).stop()
    used = command(*_join(tmp_path, etcd))
    assert used.status == 1
    assert "keys already" in used.stderr
    properties = MetaProperties.read(data)
    assert properties is not None
    assert properties.store is None
    start("one").stop()
