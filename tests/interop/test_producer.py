"""Tests klamm's producer with klamm and Apache Kafka: each record arrives exactly once when requests or answers are
lost."""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer
from confluent_kafka import KafkaError as ConsumerError
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.cimpl import NewTopic
from tests.interop.broker_process import BrokerProcess
from tests.support.dropping_proxy import DroppingProxy, Loss
from tests.support.kafka_broker import ApacheKafka
from tests.support.topic_readiness import wait_until_led, wait_until_transactions_ended

from klamm.client.aio import AsyncConnection
from klamm.client.config import ClientConfig
from klamm.client.connection import Connection
from klamm.client.conversation import Offers
from klamm.client.producer.aio_producer import AsyncProducer
from klamm.client.producer.batch import NO_IDENTITY
from klamm.client.producer.errors import (
    DeliveryRefused,
    ProducerFenced,
    RecordTooLarge,
    TransactionMustAbort,
)
from klamm.client.producer.outcome import Delivery
from klamm.client.producer.producer import BlockingProducer
from klamm.client.producer.producer_config import ProducerConfig
from klamm.client.producer.transactions import GroupMember, OffsetToCommit
from klamm.protocol.compression import Compression
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.records import encode_batch
from klamm.protocol.types import Millis, Offset, PartitionIndex, TopicPartition

pytestmark = pytest.mark.timeout(300)

PARTITIONS = 3
# The APIs whose requests and answers the proxy drops.
PRODUCE, FIND_COORDINATOR, INIT_PRODUCER_ID, ADD_PARTITIONS, ADD_OFFSETS, END_TXN, TXN_OFFSET_COMMIT = (
    0,
    10,
    22,
    24,
    25,
    26,
    28,
)


class Site(NamedTuple):
    """A broker behind a proxy that drops requests and answers."""

    proxy: DroppingProxy
    broker: BrokerProcess | ApacheKafka
    uses_v2: bool

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.proxy.port}"

    def kill_and_restart(self) -> None:
        """Kills the broker, and starts it again on the same address."""
        self.broker.kill()
        self.broker.restart() if isinstance(self.broker, ApacheKafka) else self.broker.start()


@pytest.fixture(
    scope="module",
    params=[
        "klamm",
        "klamm, first protocol",
        pytest.param("kafka", marks=pytest.mark.java),
        pytest.param("kafka, first protocol", marks=pytest.mark.java),
    ],
)
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Each of the brokers, with each of the two transaction protocols."""
    name = str(request.param)
    uses_v2 = "first" not in name
    with DroppingProxy() as proxy, pytest.MonkeyPatch.context() as patch:
        config = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}
        if name.startswith("kafka"):
            kafka = ApacheKafka(config, features={"transaction.version": 2 if uses_v2 else 1})
            proxy.target = lambda: kafka.bootstrap_servers
            with kafka:
                yield Site(proxy, kafka, uses_v2)
            return
        if not uses_v2:
            # klamm always offers the second protocol, so the client is patched to see transaction.version=1.
            for cls in (Connection, AsyncConnection):
                patch.setattr(cls, "offers", property(_first_protocol))
        config["transaction.state.log.num.partitions"] = "1"  # as here of Apache Kafka: one for all transactional ids
        klamm = BrokerProcess(tmp_path_factory.mktemp("klamm"), config)
        proxy.target = lambda: klamm.bootstrap_servers
        yield Site(proxy, klamm, uses_v2)
        klamm.stop()
        assert "Traceback" not in klamm.log(), klamm.log()[-4000:]


def _first_protocol(connection: Connection) -> Offers:
    return connection._conversation.offers._replace(finalized_features={"transaction.version": 1})


@pytest.fixture(autouse=True)
def no_losses_of_the_test_before(site: Site) -> None:
    """A test may end before all of its planned losses have happened."""
    site.proxy.lose_nothing()


@pytest.fixture
def config(site: Site) -> ClientConfig:
    # Short backoffs, because most of these tests lose many requests in a row.
    backoff = {"retry.backoff.ms": "20", "retry.backoff.max.ms": "200"}
    return ClientConfig.from_mapping({"bootstrap.servers": site.bootstrap, **backoff})


@pytest.fixture
def topic(site: Site) -> str:
    return new_topic(site)


def new_topic(site: Site, **config: str) -> str:
    """Creates a topic and waits until its leaders serve it."""
    name = f"producer-{uuid.uuid4().hex[:12]}"
    settings = {key.replace("_", "."): value for key, value in config.items()}
    admin = AdminClient({"bootstrap.servers": site.bootstrap})
    admin.create_topics([NewTopic(name, PARTITIONS, 1, config=settings)])[name].result(60)
    wait_until_led(site.bootstrap, name, PARTITIONS)
    return name


def wait_for_end_offset(site: Site, topic: str, offset: int) -> None:
    """Waits until partition 0 ends at the offset, for one minute at most."""
    admin = AdminClient({"bootstrap.servers": site.bootstrap})
    first = Place(topic, 0)
    deadline = time.monotonic() + 60
    while (found := admin.list_offsets({first: OffsetSpec.latest()})[first].result(60).offset) != offset:
        assert time.monotonic() < deadline, f"partition 0 ends at {found}"
        time.sleep(0.02)


def place(topic: str, index: int) -> TopicPartition:
    return TopicPartition(topic, PartitionIndex(index))


def consumed(site: Site, topic: str, isolation_level: str = "read_committed") -> list[list[bytes]]:
    """Returns the values of each partition in order, as librdkafka reads them. No transaction may be open."""
    if isolation_level == "read_committed":
        wait_until_transactions_ended(site.bootstrap, topic, PARTITIONS)
    consumer = Consumer(
        {
            "bootstrap.servers": site.bootstrap,
            "group.id": "reader",
            "isolation.level": isolation_level,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            # A deleted record raises an error instead of being skipped.
            "auto.offset.reset": "error",
        }
    )
    consumer.assign([Place(topic, index, 0) for index in range(PARTITIONS)])
    found: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    at_end: set[int] = set()
    while len(at_end) < PARTITIONS:
        message = consumer.poll(60)
        assert message is not None, "no records and no end for a minute"
        error = message.error()
        if error is not None:
            assert error.code() == ConsumerError._PARTITION_EOF, f"partition {message.partition()}: {error}"
            at_end.add(message.partition() or 0)
        else:
            found[message.partition() or 0].append(message.value() or b"")
    consumer.close()
    return found


def committed(site: Site, topic: str, group: str) -> int:
    consumer = Consumer({"bootstrap.servers": site.bootstrap, "group.id": group})
    (found,) = consumer.committed([Place(topic, 0)], timeout=30)
    consumer.close()
    return int(found.offset)


def offsets_are_dense(deliveries: list[Delivery]) -> bool:
    """Returns whether the deliveries contain each offset of each partition once."""
    by_partition: dict[int, list[int]] = {}
    for delivery in deliveries:
        assert delivery.error is None
        assert delivery.offset is not None
        by_partition.setdefault(delivery.topic_partition.partition, []).append(delivery.offset)
    return all(offsets == list(range(len(offsets))) for offsets in by_partition.values())


@pytest.mark.parametrize("compression", list(Compression))
def test_records_and_finished_batches_arrive_in_order(
    site: Site, config: ClientConfig, topic: str, compression: Compression
) -> None:
    """The log contains single records and finished batches of a partition in the order of the calls, for every
    codec."""
    now_ms = time.time_ns() // 1_000_000  # older records could be deleted by the retention time before they are read
    expected: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    deliveries = []
    with BlockingProducer(ProducerConfig(config, compression=compression, batch_size_bytes=2000)) as producer:
        for number in range(1500):
            index = number % PARTITIONS
            values = [b"record %d" % number] if number % 5 else [b"batch %d.%d" % (number, each) for each in range(4)]
            if number % 5:
                headers = [("h", b"1"), ("empty", None)]
                deliveries.append(producer.send(topic, values[0], b"key", partition=index, headers=headers))
            else:
                batch = encode_batch([(now_ms, None, value, ()) for value in values], compression=compression)
                deliveries.append(producer.send_batch(topic, index, batch))
            expected[index] += values
        producer.flush()
    assert all(delivery.is_done and delivery.error is None for delivery in deliveries)
    assert consumed(site, topic) == expected


@pytest.mark.parametrize(("acks", "idempotent"), [(0, False), (1, False), (-1, False), (-1, True)])
def test_each_kind_of_acknowledgement(
    site: Site, config: ClientConfig, topic: str, acks: int, idempotent: bool
) -> None:
    """Deliveries have no offsets with acks=0, and the offsets of the log otherwise, in the blocking and the asyncio
    producer."""
    settings = ProducerConfig(config, acks=acks, enable_idempotence=idempotent)  # type: ignore[arg-type]

    async def send() -> list[Offset | None]:
        async with AsyncProducer(settings) as producer:
            deliveries = [await producer.send(topic, b"%d" % number, partition=0) for number in range(100)]
            return [await producer.delivered(delivery) for delivery in deliveries]

    offsets = asyncio.run(send())
    # A broker reads two connections in any order. With acks=0, only the end offset shows that the first one was read.
    wait_for_end_offset(site, topic, 100)
    with BlockingProducer(settings) as producer:
        delivery = producer.send(topic, b"last", partition=0)
        producer.flush()
    wait_for_end_offset(site, topic, 101)
    assert offsets == ([None] * 100 if acks == 0 else list(range(100)))
    assert delivery.offset == (None if acks == 0 else 100)
    assert consumed(site, topic)[0] == [*(b"%d" % number for number in range(100)), b"last"]


@pytest.mark.parametrize("is_async", [False, True], ids=["blocking", "asyncio"])
def test_records_without_acknowledgement_are_written_before_the_end(
    site: Site, config: ClientConfig, topic: str, is_async: bool
) -> None:
    """Closing a producer with acks=0 loses no record, and `buffer.memory` limits the records that wait for the
    socket."""
    settings = ProducerConfig(config, acks=0, enable_idempotence=False, buffer_memory_bytes=4_000_000)
    value = bytes(100_000)

    async def send() -> list[int]:
        async with AsyncProducer(settings) as producer:
            return [await send_one(producer) for _ in range(300)]

    async def send_one(producer: AsyncProducer) -> int:
        await producer.send(topic, value, partition=0)
        return producer.buffered_bytes

    if is_async:
        buffered_bytes = asyncio.run(send())
    else:
        with BlockingProducer(settings) as producer:
            buffered_bytes = []
            for _ in range(300):
                producer.send(topic, value, partition=0)
                buffered_bytes.append(producer.buffered_bytes)
    assert max(buffered_bytes) <= 4_000_000
    wait_for_end_offset(site, topic, 300)


def test_transactions_commit_and_abort(site: Site, config: ClientConfig, topic: str) -> None:
    """A read_committed consumer reads only the records of committed transactions; offsets move only with these
    transactions."""
    group = f"group-{topic}"
    with BlockingProducer(ProducerConfig(config, transactional_id=topic)) as producer:
        producer.init_transactions()
        for number in range(6):
            producer.begin_transaction()
            for index in range(PARTITIONS):
                producer.send(topic, b"%d" % number, partition=index)
            producer.send_offsets({place(topic, 0): OffsetToCommit(Offset(number), metadata="m")}, group)
            producer.abort_transaction() if number % 2 else producer.commit_transaction()
        producer.begin_transaction()
        producer.commit_transaction()  # nothing was added to it
    assert consumed(site, topic) == [[b"0", b"2", b"4"]] * PARTITIONS
    assert committed(site, topic, group) == 4


def test_transactions_of_the_asyncio_face(site: Site, config: ClientConfig, topic: str) -> None:
    """The asyncio producer commits and aborts transactions like the blocking producer."""

    async def run() -> None:
        async with AsyncProducer(ProducerConfig(config, transactional_id=topic)) as producer:
            await producer.init_transactions()
            for number in range(4):
                await producer.begin_transaction()
                await producer.send(topic, b"%d" % number, partition=0)
                await producer.send_offsets({place(topic, 0): OffsetToCommit(Offset(number))}, topic)
                await (producer.abort_transaction() if number % 2 else producer.commit_transaction())

    asyncio.run(run())
    assert consumed(site, topic)[0] == [b"0", b"2"]
    assert committed(site, topic, topic) == 2


def test_an_error_in_the_block_aborts(site: Site, config: ClientConfig, topic: str) -> None:
    """An exception in the producer's `with` block aborts the transaction, so that consumers read to the end."""

    def fail() -> None:
        with BlockingProducer(ProducerConfig(config, transactional_id=topic)) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(topic, b"never", partition=0)
            producer.flush()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert consumed(site, topic)[0] == []
    assert consumed(site, topic, "read_uncommitted")[0] == [b"never"]


LOST_APIS = (PRODUCE, FIND_COORDINATOR, INIT_PRODUCER_ID, ADD_PARTITIONS, ADD_OFFSETS, TXN_OFFSET_COMMIT, END_TXN)
LOSSES: tuple[Loss | None, ...] = ("answer", "request", "answer", "answer", None, "answer")


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("api_key", LOST_APIS)
def test_lost_requests_and_answers_change_no_transaction(
    site: Site, config: ClientConfig, topic: str, api_key: int, commits: bool
) -> None:
    """The producer repeats each lost request of a transaction until the broker answers it, and the request takes effect
    once."""
    with BlockingProducer(ProducerConfig(config, transactional_id=f"{topic}-before")) as producer:
        producer.init_transactions()  # a coordinator that just begins would refuse requests, and use up the plan
    with BlockingProducer(ProducerConfig(config, transactional_id=topic, batch_size_bytes=100)) as producer:
        site.proxy.lose(api_key, *LOSSES)
        producer.init_transactions()
        for number in range(3):
            producer.begin_transaction()
            for part in range(8):
                producer.send(topic, b"%d.%d" % (number, part), partition=0)
            producer.send_offsets({place(topic, 0): OffsetToCommit(Offset(number))}, topic)
            producer.commit_transaction() if commits or number == 2 else producer.abort_transaction()
    # In the second protocol, only brokers send requests that add partitions or offsets. Apache Kafka's broker sends
    # these requests through its advertised listener, so the proxy drops them. The producer repeats InitProducerId only
    # until the first answer.
    is_absent = site.uses_v2 and api_key in (ADD_PARTITIONS, ADD_OFFSETS)
    if not is_absent:
        assert site.proxy.lost == (4 if api_key == INIT_PRODUCER_ID else 5)
    numbers = range(3) if commits else (2,)
    assert consumed(site, topic)[0] == [b"%d.%d" % each for each in itertools.product(numbers, range(8))]
    assert committed(site, topic, topic) == 2


@pytest.mark.parametrize("is_async", [False, True], ids=["blocking", "asyncio"])
def test_lost_produce_answers_write_nothing_twice(site: Site, config: ClientConfig, topic: str, is_async: bool) -> None:
    """When many connections are lost with batches in flight, the log contains each record once, in order, at its
    offset."""
    settings = ProducerConfig(config, batch_size_bytes=300)
    plan: tuple[Loss | None, ...] = (*[None] * 5, "answer", None, None, "request")
    site.proxy.lose(PRODUCE, *plan * 5)
    numbers = range(3000)

    async def send() -> list[Delivery]:
        async with AsyncProducer(settings) as producer:
            deliveries = [await producer.send(topic, b"%d" % number, partition=number % 2) for number in numbers]
            await producer.flush()
            return deliveries

    if is_async:
        deliveries = asyncio.run(send())
    else:
        with BlockingProducer(settings) as producer:
            deliveries = [producer.send(topic, b"%d" % number, partition=number % 2) for number in numbers]
            producer.flush()
    assert site.proxy.lost == 10
    # A retried batch that the broker no longer remembers as a duplicate would have no offset.
    assert offsets_are_dense(deliveries)
    assert consumed(site, topic)[:2] == [[b"%d" % number for number in numbers[start::2]] for start in range(2)]


def test_a_killed_broker_loses_and_doubles_nothing(site: Site, config: ClientConfig, topic: str) -> None:
    """Records that are sent while the broker is killed and restarted are in the log once and in order."""
    # After a crash Apache Kafka knows only the last batch of a producer: recovery loads the producers from a snapshot,
    # which has one batch of each (`LogLoader.recoverSegment`). Of several batches without an answer Kafka refuses the
    # first as out of order. A producer, also Java's, then sends that batch again with a new epoch.
    most_in_flight = 1 if isinstance(site.broker, ApacheKafka) else 5
    settings = ProducerConfig(config, batch_size_bytes=500, max_in_flight=most_in_flight)
    with BlockingProducer(settings) as producer:
        deliveries = []
        for number in range(4000):
            deliveries.append(producer.send(topic, b"%d" % number, partition=0))
            if number == 2000:
                site.kill_and_restart()
        producer.flush()
    assert {str(delivery.error) for delivery in deliveries if delivery.error is not None} == set()
    found = [int(value) for value in consumed(site, topic)[0]]
    assert sorted(set(range(4000)) - set(found)) == [], "lost"
    assert sorted(number for number, count in Counter(found).items() if count > 1) == [], "doubled"
    assert found == sorted(found), "out of order"


def test_a_second_producer_fences_the_first(site: Site, config: ClientConfig, topic: str) -> None:
    """A second producer with the same transactional id fences the first one, whose next commit fails; its records stay
    invisible."""
    settings = ProducerConfig(config, transactional_id=topic)
    with BlockingProducer(settings) as first, BlockingProducer(settings) as second:
        first.init_transactions()
        first.begin_transaction()
        first.send(topic, b"first", partition=0)
        first.flush()
        second.init_transactions()
        second.begin_transaction()
        second.send(topic, b"second", partition=0)
        second.commit_transaction()
        with pytest.raises(ProducerFenced):
            first.commit_transaction()
        with pytest.raises(ProducerFenced):
            first.send(topic, b"late", partition=0)
    assert consumed(site, topic)[0] == [b"second"]


def test_the_epoch_tells_whether_there_was_an_earlier_producer(config: ClientConfig) -> None:
    """The first producer of a transactional id gets the epoch 0, and each later one a higher epoch."""
    transactional = ProducerConfig(config, transactional_id=f"epochs-{uuid.uuid4().hex}")
    epochs = []
    for _ in range(3):
        with BlockingProducer(transactional) as producer:
            assert producer.identity == NO_IDENTITY
            producer.init_transactions()
            epochs.append(producer.identity.epoch)
    assert epochs == [0, 1, 2]


def test_a_fenced_record_must_be_aborted_and_then_fails(site: Site, config: ClientConfig, topic: str) -> None:
    """A record of a fenced producer fails, and an abort does not make the producer usable again."""
    settings = ProducerConfig(config, transactional_id=topic)
    with BlockingProducer(settings) as first, BlockingProducer(settings) as second:
        first.init_transactions()
        first.begin_transaction()
        second.init_transactions()
        delivery = first.send(topic, b"first", partition=0)
        with pytest.raises((TransactionMustAbort, ProducerFenced)):
            first.commit_transaction()
        assert delivery.error is not None
        with pytest.raises(ProducerFenced):
            first.abort_transaction()
    assert consumed(site, topic, "read_uncommitted")[0] == []


def test_offsets_of_a_member_that_has_left_must_be_aborted(site: Site, config: ClientConfig, topic: str) -> None:
    """The coordinator refuses offsets of an unknown member; the producer continues after it aborts the transaction."""
    with BlockingProducer(ProducerConfig(config, transactional_id=topic)) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"1", partition=0)
        with pytest.raises(TransactionMustAbort):
            producer.send_offsets({place(topic, 0): OffsetToCommit(Offset(1))}, topic, GroupMember("nobody", 7))
        with pytest.raises(TransactionMustAbort):
            producer.commit_transaction()
        with pytest.raises(TransactionMustAbort):
            producer.send(topic, b"2", partition=0)
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send(topic, b"3", partition=0)
        producer.commit_transaction()
    assert consumed(site, topic)[0] == [b"3"]


def test_batches_that_are_too_large(site: Site, config: ClientConfig) -> None:
    """The producer splits a large batch of records until it fits. The broker refuses a finished batch and a single
    record that are too large, and later records arrive."""
    topic = new_topic(site, max_message_bytes="1000")
    with BlockingProducer(ProducerConfig(config, batch_size_bytes=20_000, linger_ms=1000)) as producer:
        deliveries = [producer.send(topic, b"%04d" % number * 20, partition=0) for number in range(200)]
        finished = producer.send_batch(topic, 0, encode_batch([(1, None, b"x" * 100, ())] * 20))
        single = producer.send(topic, b"y" * 2000, partition=0)
        producer.flush()
        last = producer.send(topic, b"last", partition=0)
        producer.flush()
        with pytest.raises(RecordTooLarge, match=r"max\.request\.size"):
            producer.send(topic, b"z" * 2_000_000)
    assert offsets_are_dense([*deliveries, last])
    for refused in (finished, single):
        assert isinstance(refused.error, DeliveryRefused)
        assert refused.error.code is ErrorCode.MESSAGE_TOO_LARGE
    assert "max.message.bytes" in str(finished.error)
    assert consumed(site, topic)[0] == [*(b"%04d" % number * 20 for number in range(200)), b"last"]


def test_a_refused_record_fails_its_transaction_only(site: Site, config: ClientConfig) -> None:
    """A record that the broker refuses makes its transaction fail; the next transaction commits."""
    topic = new_topic(site, max_message_bytes="1000")
    with BlockingProducer(ProducerConfig(config, transactional_id=topic)) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"small", partition=0)
        producer.send(topic, b"y" * 2000, partition=1)
        with pytest.raises(TransactionMustAbort, match="MESSAGE_TOO_LARGE"):
            producer.commit_transaction()
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send(topic, b"again", partition=0)
        producer.send(topic, b"again", partition=1)
        producer.commit_transaction()
    assert consumed(site, topic) == [[b"again"], [b"again"], []]


def test_a_damaged_batch_is_not_accepted(config: ClientConfig, topic: str) -> None:
    """The producer refuses a finished batch whose bytes do not match its CRC."""
    batch = bytearray(encode_batch([(1, None, b"value", ())]))
    batch[-3] ^= 1
    with BlockingProducer(ProducerConfig(config)) as producer, pytest.raises(KafkaError, match="CORRUPT_MESSAGE"):
        producer.send_batch(topic, 0, bytes(batch))


def test_memory_stays_bounded(site: Site, config: ClientConfig, topic: str) -> None:
    """`send` waits when `buffer.memory` is full, and all records arrive."""
    settings = ProducerConfig(config, buffer_memory_bytes=20_000, batch_size_bytes=4000, linger_ms=1000)
    with BlockingProducer(settings) as producer:
        for number in range(2000):
            producer.send(topic, b"%05d" % number * 20, partition=0)
            assert producer.buffered_bytes <= 20_000
        producer.flush(Millis(60_000))
        assert producer.buffered_bytes == 0
    assert consumed(site, topic)[0] == [b"%05d" % number * 20 for number in range(2000)]
