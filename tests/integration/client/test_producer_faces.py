"""The blocking and the asyncio producer without a broker, with a broker that stops, and with several sending tasks."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from klamm import Broker
from klamm.client.aio import AsyncConnection
from klamm.client.cluster_view import PartitionLeader
from klamm.client.config import Address, ClientConfig
from klamm.client.connection import Connection
from klamm.client.conversation import Conversation
from klamm.client.errors import AuthenticationFailed, GaveUp, PartitionMissing
from klamm.client.producer import metadata_refresh
from klamm.client.producer import producer as producer_module
from klamm.client.producer.aio_producer import AsyncProducer
from klamm.client.producer.errors import BufferFull, DeliveryTimedOut, ProducerClosed, ProducerFailed
from klamm.client.producer.producer import BlockingProducer
from klamm.client.producer.producer_config import ProducerConfig
from klamm.protocol.records import encode_batch
from klamm.protocol.types import BrokerId, Millis, Offset, PartitionIndex, TopicPartition


@pytest.fixture
def nowhere() -> Iterator[ClientConfig]:
    """Reserves a port that refuses connections during the test."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield ClientConfig((("127.0.0.1", held.getsockname()[1]),), request_timeout_ms=100, retry_backoff_max_ms=50)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(config={"num.partitions": "2", "auto.create.topics.enable": "true"}) as running:
        yield running


def reachable(broker: Broker, **settings: object) -> ProducerConfig:
    client = ClientConfig.from_mapping({"bootstrap.servers": broker.bootstrap_servers})
    return ProducerConfig(client, allow_auto_create_topics=True, **settings)  # type: ignore[arg-type]


def test_nobody_there(nowhere: ClientConfig) -> None:
    """Without a broker each call gives up after `max.block.ms`, and close does not wait for unsent records."""
    producer = BlockingProducer(ProducerConfig(nowhere, max_block_ms=200))
    with producer, pytest.raises(PartitionMissing, match="is a broker reachable"):
        producer.send("t", b"v")
    producer = BlockingProducer(ProducerConfig(nowhere, max_block_ms=200, transactional_id="x"))
    with producer, pytest.raises(GaveUp, match=r"get a producer id after 200 ms.*\(no connection to the broker at"):
        producer.init_transactions()
    producer.close()
    with pytest.raises(ProducerClosed):
        producer.poll()


@pytest.mark.parametrize("pause_ms", [31_000, 121_000])
def test_a_caller_that_pauses_loses_no_time(broker: Broker, monkeypatch: pytest.MonkeyPatch, pause_ms: int) -> None:
    """The answer of a broker comes while the caller is busy for longer than a request, or than a delivery, may take. It
    counts when the caller is back: nothing is sent again. What was not sent yet still has its time.
    """
    paused = 0
    real_now = producer_module._now
    monkeypatch.setattr(producer_module, "_now", lambda: Millis(real_now() + paused))
    config = reachable(broker, acks=1, enable_idempotence=False, linger_ms=100)
    with BlockingProducer(config) as producer:
        first = producer.send("pauses", b"warm")
        producer.flush()
        deliveries = [producer.send("pauses", b"%d" % number, partition=0) for number in range(10)]
        time.sleep(0.2)
        producer.poll()  # sends
        deliveries.append(producer.send("pauses", b"10", partition=0))
        time.sleep(0.5)  # the answer arrives
        paused = pause_ms
        producer.flush()
        assert first.is_done
        assert all(delivery.is_done for delivery in deliveries)
        assert {delivery.error for delivery in deliveries} == {None}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "pauses"})
    place = Place("pauses", 0)
    _, end = consumer.get_watermark_offsets(place, timeout=30)
    consumer.close()
    assert end in (11, 12)  # with the first record, if it went here


def test_a_caller_that_pauses_in_the_middle_of_a_request(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The socket takes only a part of a request before the caller is busy for longer than a request may take. The
    broker can't answer meanwhile, so the request keeps its time, and nothing is sent again."""
    paused = 0
    real_now = producer_module._now
    monkeypatch.setattr(producer_module, "_now", lambda: Millis(real_now() + paused))
    batch = encode_batch([(time.time_ns() // 1_000_000, None, b"v", ())])
    with BlockingProducer(reachable(broker, acks=1, enable_idempotence=False)) as producer:
        producer.send_batch("t", 0, batch)
        producer.flush()
        with monkeypatch.context() as full:
            full.setattr(Connection, "write_ready", lambda connection: None)
            delivery = producer.send_batch("t", 0, batch)
        paused = 31_000
        producer.flush()
        assert delivery.offset == 1
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "pauses"})
    _, end = consumer.get_watermark_offsets(Place("t", 0), timeout=30)
    consumer.close()
    assert end == 2


def test_nobody_there_asyncio(nowhere: ClientConfig) -> None:
    """Without a broker the asyncio producer gives up after `max.block.ms`; close wakes waiting calls."""

    async def run() -> None:
        async with AsyncProducer(ProducerConfig(nowhere, max_block_ms=200)) as producer:
            with pytest.raises(PartitionMissing, match="is a broker reachable"):
                await producer.send("t", b"v")
        patient = AsyncProducer(ProducerConfig(nowhere, transactional_id="x"))
        waiting = asyncio.create_task(patient.init_transactions())
        await asyncio.sleep(0.05)
        await patient.close()
        with pytest.raises(ProducerClosed):
            await waiting
        with pytest.raises(ProducerClosed):
            await patient.flush()

    asyncio.run(run())


def test_a_full_buffer_gives_up(broker: Broker) -> None:
    """With a full buffer and no broker, `send` raises BufferFull after `max.block.ms`; close fails the buffered
    records."""
    config = reachable(broker, buffer_memory_bytes=1000, max_block_ms=300, delivery_timeout_ms=40_000)
    producer = BlockingProducer(config)
    producer.send("t", b"first", partition=0)
    producer.flush()
    broker.stop()
    delivery = producer.send("t", bytes(500), partition=0)
    with pytest.raises(BufferFull, match=r"buffer\.memory=1000"):
        producer.send("t", bytes(500), partition=0)
    producer.close(Millis(0))
    assert isinstance(delivery.error, ProducerClosed)


def test_records_expire(broker: Broker) -> None:
    """Without a broker a record fails after `delivery.timeout.ms`."""
    client = ClientConfig.from_mapping(
        {"bootstrap.servers": broker.bootstrap_servers, "request.timeout.ms": "200", "retry.backoff.max.ms": "50"}
    )
    with BlockingProducer(ProducerConfig(client, allow_auto_create_topics=True, delivery_timeout_ms=500)) as producer:
        producer.send("t", b"first", partition=0)
        producer.flush()
        broker.stop()
        delivery = producer.send("t", b"second", partition=0)
        producer.flush()
    assert isinstance(delivery.error, DeliveryTimedOut)


def test_many_tasks_send_at_once(broker: Broker) -> None:
    """Records of several tasks share batches, and each task gets its own offsets. A small buffer makes the tasks
    wait."""

    async def send(producer: AsyncProducer, count: int) -> list[Offset | None]:
        deliveries = [await producer.send("t", bytes(100), partition=0) for _ in range(count)]
        return [await producer.delivered(delivery) for delivery in deliveries]

    async def run() -> list[list[Offset | None]]:
        config = reachable(broker, buffer_memory_bytes=20_000, batch_size_bytes=4000)
        async with AsyncProducer(config) as producer:
            found = await asyncio.gather(*(send(producer, 500) for _ in range(8)))
            assert producer.buffered_bytes == 0
            return found

    found = asyncio.run(run())
    assert sorted(offset for offsets in found for offset in offsets if offset is not None) == list(range(4000))
    assert all(offsets == sorted(offset or 0 for offset in offsets) for offsets in found)


def test_lingering_records_leave_by_themselves_or_with_poll(broker: Broker) -> None:
    """After `linger.ms` the asyncio producer sends without another call, the blocking producer in `poll`."""

    async def run() -> Offset | None:
        async with AsyncProducer(reachable(broker, linger_ms=50)) as producer:
            return await producer.delivered(await producer.send("t", b"v", partition=0))

    assert asyncio.run(run()) == 0
    with BlockingProducer(reachable(broker, linger_ms=50)) as producer:
        producer.partitions_of("t")
        delivery = producer.send("t", b"v", partition=0)
        producer.poll(Millis(30_000))
        assert delivery.offset == 1


def lead(producer: BlockingProducer, index: int, address: Address) -> None:
    """Makes the producer take a broker at this address for the leader of a partition of the topic t."""
    view, broker = producer._machine.view, BrokerId(99)
    topic = view.topic("t")
    assert topic is not None
    leaders = list(topic.partitions)
    leaders[index] = PartitionLeader(broker, leaders[index].epoch)
    view._addresses[broker] = address
    view._topics["t"] = topic._replace(partitions=tuple(leaders))


def ends_of(broker: Broker, topic: str) -> list[int]:
    """Returns the end of each of both partitions."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
    ends = [consumer.get_watermark_offsets(Place(topic, index), 30)[1] for index in range(2)]
    consumer.close()
    return ends


@pytest.mark.parametrize("is_written", [True, False])
def test_a_broker_that_hangs_makes_no_other_one_overdue(broker: Broker, *, is_written: bool) -> None:
    """While a connection is opened to a broker that never answers, the answer of another broker may wait for longer
    than its time: it counts, and nothing is written twice. A request of which the other broker's socket has taken only
    a part keeps its time."""
    client = ClientConfig.from_mapping({"bootstrap.servers": broker.bootstrap_servers, "request.timeout.ms": "300"})
    config = ProducerConfig(client, acks=1, enable_idempotence=False, allow_auto_create_topics=True)
    batch = encode_batch([(time.time_ns() // 1_000_000, None, b"v", ())])
    with socket.create_server(("127.0.0.1", 0)) as hanging, BlockingProducer(config) as producer:
        producer.send_batch("t", 0, batch)
        producer.flush()
        lead(producer, 1, hanging.getsockname())
        # Both requests are due at once: one is sent, and the connection for the other one opened.
        now = Millis(time.monotonic_ns() // 1_000_000)
        producer._machine.send_batch(TopicPartition("t", PartitionIndex(0)), batch, now)
        connect = producer._connect

        with pytest.MonkeyPatch.context() as full:

            def connect_until_room(address: Address) -> None:
                connect(address)
                full.undo()

            if not is_written:
                full.setattr(Connection, "write_ready", lambda connection: None)
                full.setattr(producer, "_connect", connect_until_room)
            producer.send_batch("t", 1, batch)
            producer.flush()

    assert ends_of(broker, "t") == [2, 1]


@pytest.mark.timeout(60)
def test_a_producer_that_only_counts_sees_new_partitions(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A blocking producer that only counts partitions sees new ones once its metadata are old. While no broker answers,
    it counts with the old ones."""
    monkeypatch.setattr(metadata_refresh, "_MAXIMUM_AGE_MS", 100)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic("grown", 3, 1)])["grown"].result(30)
    producer = BlockingProducer(reachable(broker, max_block_ms=500))
    assert producer.partitions_of("grown") == 3
    admin.create_partitions([NewPartitions("grown", 5)])["grown"].result(30)
    while producer.partitions_of("grown") == 3:
        pass
    assert producer.partitions_of("grown") == 5

    broker.stop()
    time.sleep(0.2)
    assert producer.partitions_of("grown") == 5
    producer.close(Millis(0))


def finished_batch(value: bytes) -> bytes:
    """Returns a finished batch of one record."""
    return encode_batch([(time.time_ns() // 1_000_000, None, value, ())])


def test_an_added_partition_is_found(broker: Broker) -> None:
    """A producer that knows a topic finds a partition that was added later, in records and in finished batches. It
    refuses a partition that does not exist after one refresh of the metadata."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for name in ("blocking", "asyncio"):
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)

    def grow(name: str, count: int) -> None:
        admin.create_partitions([NewPartitions(name, count)])[name].result(30)

    with BlockingProducer(reachable(broker)) as producer:
        assert producer.partitions_of("blocking") == 1
        grow("blocking", 2)
        deliveries = [producer.send_batch("blocking", 1, finished_batch(b"v"))]
        grow("blocking", 3)
        deliveries.append(producer.send("blocking", b"v", partition=2))
        producer.flush()
        assert [delivery.offset for delivery in deliveries] == [0, 0]
        with pytest.raises(PartitionMissing, match="has no partition 3: it has 3"):
            producer.send_batch("blocking", 3, finished_batch(b"v"))

    async def run() -> None:
        async with AsyncProducer(reachable(broker)) as producer:
            assert await producer.partitions_of("asyncio") == 1
            grow("asyncio", 2)
            delivery = await producer.send_batch("asyncio", 1, finished_batch(b"v"))
            assert await producer.delivered(delivery) == 0
            grow("asyncio", 3)
            assert await producer.delivered(await producer.send("asyncio", b"v", partition=2)) == 0
            with pytest.raises(PartitionMissing, match="has no partition 3: it has 3"):
                await producer.send("asyncio", b"v", partition=3)

    asyncio.run(run())


def test_brokers_that_never_answer_do_not_hold_the_caller() -> None:
    """Both brokers accept connections and never answer. An attempt takes longer than the pauses, so that there is
    always a broker to try next. The caller gets its error after `max.block.ms` all the same."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        client = ClientConfig(
            (one.getsockname(), two.getsockname()), request_timeout_ms=200, retry_backoff_ms=1, retry_backoff_max_ms=5
        )
        producer = BlockingProducer(ProducerConfig(client, max_block_ms=500))
        with pytest.raises(PartitionMissing, match="is a broker reachable"):
            producer.send("t", b"v")
        producer.close(Millis(0))


def test_a_broker_that_hangs_keeps_no_request_back(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that is due together with a connection that fails is sent in the same call: a long pause of the caller
    after it does not make it overdue, and nothing is written twice."""
    paused = 0
    real_now = producer_module._now
    monkeypatch.setattr(producer_module, "_now", lambda: Millis(real_now() + paused))
    client = ClientConfig.from_mapping({"bootstrap.servers": broker.bootstrap_servers, "request.timeout.ms": "300"})
    config = ProducerConfig(client, acks=1, enable_idempotence=False, allow_auto_create_topics=True)
    with socket.create_server(("127.0.0.1", 0)) as hanging, BlockingProducer(config) as producer:
        producer.send_batch("t", 1, finished_batch(b"v"))
        producer.flush()
        lead(producer, 0, hanging.getsockname())
        producer._machine.send_batch(
            TopicPartition("t", PartitionIndex(0)), finished_batch(b"v"), producer_module._now()
        )
        producer.send_batch("t", 1, finished_batch(b"v"))
        time.sleep(0.3)
        paused = 31_000
        producer.flush()
    assert ends_of(broker, "t") == [1, 2]


def test_an_interrupted_call_can_be_repeated(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that is interrupted while it opens a connection, as by Ctrl-C in a notebook, can be repeated."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with BlockingProducer(reachable(broker, max_block_ms=5_000)) as producer:
        with monkeypatch.context() as interrupted:
            interrupted.setattr(producer_module, "Connection", interrupt)
            with pytest.raises(KeyboardInterrupt):
                producer.send("t", b"v", partition=0)
        delivery = producer.send("t", b"v", partition=0)
    assert delivery.offset == 0


def test_an_interrupted_abort_closes_the_producer(nowhere: ClientConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second interruption, during the abort that follows the first one, closes the producer."""

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(BlockingProducer, "abort_transaction", interrupt)
    producer = BlockingProducer(ProducerConfig(nowhere, transactional_id="x"))
    with pytest.raises(KeyboardInterrupt), producer:
        raise RuntimeError
    with pytest.raises(ProducerClosed):
        producer.flush()


def test_a_cancelled_abort_closes_the_asyncio_producer(nowhere: ClientConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that is cancelled again, during the abort that follows the first cancellation, closes its producer."""

    async def wait(_: object) -> None:
        await asyncio.sleep(60)

    async def use(producer: AsyncProducer) -> None:
        async with producer:
            await asyncio.sleep(60)

    async def run() -> None:
        producer = AsyncProducer(ProducerConfig(nowhere, transactional_id="x"))
        task = asyncio.create_task(use(producer))
        for _ in range(2):
            await asyncio.sleep(0.05)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(ProducerClosed):
            await producer.flush()

    monkeypatch.setattr(AsyncProducer, "abort_transaction", wait)
    asyncio.run(run())


def test_a_closed_producer_refuses_a_partition_that_it_does_not_know(broker: Broker) -> None:
    """A producer that is closed refuses a record for a partition that its metadata do not have."""
    with BlockingProducer(reachable(broker)) as producer:
        producer.partitions_of("t")
    with pytest.raises(ProducerClosed):
        producer.send("t", b"v", partition=9)


@pytest.mark.timeout(30)
def test_a_closed_asyncio_producer_waits_for_no_metadata(broker: Broker) -> None:
    """A call that waits for newer metadata ends when the producer is closed, and a later call is refused."""

    async def run() -> None:
        producer = AsyncProducer(reachable(broker))
        await producer.partitions_of("t")
        waiting = asyncio.create_task(producer.partitions_of("t", at_least=9))
        await asyncio.sleep(0)
        await producer.close()
        with pytest.raises(ProducerClosed):
            await waiting
        with pytest.raises(ProducerClosed):
            await producer.send("t", b"v", partition=9)

    asyncio.run(run())


def refuse_renewal(_: object) -> Iterator[object]:
    """Takes the place of `Conversation.reauthentication`."""
    raise AuthenticationFailed("the password was changed")
    yield


def test_a_refused_renewal_ends_the_records_at_once(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker refuses to renew a session (KIP-368): records fail at once, not after `request.timeout.ms`."""
    with BlockingProducer(reachable(broker)) as producer:
        producer.send("t", b"v", partition=0)
        producer.flush()
        monkeypatch.setattr(Conversation, "reauthentication", refuse_renewal)
        delivery = producer.send("t", b"v", partition=0)
        producer.flush(Millis(5_000))
        assert isinstance(delivery.error, ProducerFailed)


def test_a_refused_renewal_ends_the_records_at_once_asyncio(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The asyncio producer fails its records at once, too, if a broker refuses to renew a session."""

    async def run() -> None:
        async with AsyncProducer(reachable(broker)) as producer:
            await producer.send("t", b"v", partition=0)
            await producer.flush()
            monkeypatch.setattr(Conversation, "reauthentication", refuse_renewal)
            delivery = await producer.send("t", b"v", partition=0)
            await producer.flush(Millis(5_000))
            assert isinstance(delivery.error, ProducerFailed)

    asyncio.run(run())


def test_a_failed_producer_waits_for_no_metadata(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer that a broker does not accept any more says so at once, also where it would wait for newer
    metadata."""
    monkeypatch.setattr(metadata_refresh, "_MAXIMUM_AGE_MS", 1)
    producer = BlockingProducer(reachable(broker))
    producer.partitions_of("t")
    producer._machine.fail(AuthenticationFailed("the password was changed"))
    began_at = time.monotonic()
    with pytest.raises(ProducerFailed):
        producer.partitions_of("t")
    with pytest.raises(ProducerFailed):
        producer.send("t", b"v", partition=9)
    assert time.monotonic() - began_at < 5
    producer.close()

    async def run() -> None:
        async with AsyncProducer(reachable(broker)) as producer:
            await producer.partitions_of("t")
            waiting = asyncio.create_task(producer.partitions_of("t", at_least=9))
            await asyncio.sleep(0)
            producer._machine.fail(AuthenticationFailed("the password was changed"))
            with pytest.raises(ProducerFailed):
                await asyncio.wait_for(waiting, 5)

    asyncio.run(run())


def test_an_unexpected_error_of_a_connection_reaches_the_caller(
    nowhere: ClientConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error that no connection should raise ends the asyncio producer; its callers do not wait for the
    connection."""

    async def fail(*_: object) -> None:
        raise ValueError("a timeout of 0")

    async def run() -> None:
        monkeypatch.setattr(AsyncConnection, "open", fail)
        async with AsyncProducer(ProducerConfig(nowhere, max_block_ms=5_000)) as producer:
            with pytest.raises(ProducerFailed, match="a timeout of 0"):
                await producer.send("t", b"v")

    asyncio.run(run())
