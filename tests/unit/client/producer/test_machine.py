"""Tests what a producer sends and when: windows, memory, epochs, leaders, throttling, transaction protocols, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.cluster_model import OFFERS_V2, TOPIC, ClusterModel
from tests.support.producer_world import ProducerWorld, Script

from klamm.client.config import ClientConfig
from klamm.client.coordinator import GROUP
from klamm.client.errors import AuthenticationFailed
from klamm.client.producer.errors import (
    DeliveryRefused,
    DeliveryTimedOut,
    InvalidTransactionCall,
    ProducerClosed,
    ProducerFailed,
    ProducerFenced,
    RecordTooLarge,
    TransactionAborted,
    TransactionMustAbort,
)
from klamm.client.producer.machine import ProducerMachine
from klamm.client.producer.outcome import Delivery, Operation
from klamm.client.producer.producer_config import ProducerConfig
from klamm.client.producer.transactions import OffsetToCommit
from klamm.protocol.errors import ErrorCode
from klamm.protocol.record_batch import read_batch_header
from klamm.protocol.records import encode_batch
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.find_coordinator_response import FindCoordinatorResponse
from klamm.protocol.schema.init_producer_id_request import InitProducerIdRequest
from klamm.protocol.types import Offset, PartitionIndex, ProducerEpoch, ProducerId, TopicPartition

CLIENT = ClientConfig((("one", 9092),), request_timeout_ms=500)
PLACE = TopicPartition(TOPIC, PartitionIndex(0))
PRODUCE, METADATA, FIND_COORDINATOR, END_TXN = 0, 3, 10, 26


def new_world(*, second_protocol: bool = True, **settings: object) -> ProducerWorld:
    return ProducerWorld(0, ProducerConfig(CLIENT, **settings), partitions=1, second_protocol=second_protocol)  # type: ignore[arg-type]


def send(world: ProducerWorld, value: bytes = b"v") -> Delivery:
    """Sends a finished batch of one record, which needs no linger."""
    delivery = world.machine.send_batch(PLACE, encode_batch([(1, None, value, ())]), world.now)
    assert delivery is not None
    return delivery


def until(is_done: Callable[[], bool]) -> Script:
    yield is_done


def complete(world: ProducerWorld, operation: Operation) -> None:
    """Waits for an operation, as a user-facing producer does. Raises the operation's error."""
    world.run(until(lambda: operation.is_done))
    world.machine.seen(operation)
    if operation.error is not None:
        raise operation.error


def flush(world: ProducerWorld) -> None:
    complete(world, world.machine.flush())


def begin(world: ProducerWorld) -> None:
    if (ready := world.machine.when_ready()) is not None:
        complete(world, ready)
    world.machine.begin()


def produced(world: ProducerWorld) -> list[tuple[int, int, int]]:
    """Returns the producer id, epoch and base sequence of each sent batch, in the order of the attempts."""
    found: list[tuple[int, int, int]] = []
    for request in world.sent:
        if request.api_key == PRODUCE:
            # The batch is the last field before three bytes of empty tagged fields.
            start = len(request.body) - 3 - len(stored := encode_batch([(1, None, b"v", ())]))
            header = read_batch_header(bytes(request.body[start : start + len(stored)]))
            found.append((header.producer_id, header.producer_epoch, header.base_sequence))
    return found


def test_a_window_of_five_batches_opens_after_the_first() -> None:
    """The first batch of a producer id is sent alone; after its answer, five batches are in flight at most."""
    world = new_world()
    for _ in range(20):
        send(world)
    world.run(until(lambda: bool(produced(world))))
    assert [sequence for _, _, sequence in produced(world)] == [0]
    world.run(until(lambda: len(produced(world)) > 1))
    assert [sequence for _, _, sequence in produced(world)] == [0, 1, 2, 3, 4, 5]
    flush(world)
    assert len(world.model.partitions[0].records) == 20


def test_a_refresh_shows_what_is_newer_than_the_call() -> None:
    """A refresh ends with the answer to a request that was sent after the call, not with one that was on its way."""
    world = new_world()
    world.machine.partition_count(TOPIC)
    world.run(until(lambda: any(request.api_key == METADATA for request in world.sent)))
    is_refreshed = world.machine.refresh_topic(TOPIC, world.now)
    world.run(until(lambda: world.machine.partition_count(TOPIC) is not None))
    assert not is_refreshed()

    world.run(until(is_refreshed))

    assert len([request for request in world.sent if request.api_key == METADATA]) == 2


def test_memory_is_bounded_and_freed() -> None:
    """A full buffer accepts no batch, and acknowledged batches free their memory."""
    size = len(encode_batch([(1, None, b"v", ())]))
    world = new_world(buffer_memory_bytes=3 * size)
    for _ in range(3):
        send(world)
    assert world.machine.send_batch(PLACE, encode_batch([(1, None, b"v", ())]), world.now) is None
    assert world.machine.used_bytes == 3 * size
    flush(world)
    assert world.machine.used_bytes == 0
    send(world)
    with pytest.raises(RecordTooLarge, match=r"buffer\.memory"):
        world.machine.send(PLACE, (1, None, bytes(3 * size), ()), world.now)


def test_records_wait_for_linger_or_a_full_batch() -> None:
    """A single record waits for `linger.ms`, but a batch of `batch.size` is sent at once."""
    world = new_world(linger_ms=1000, batch_size_bytes=200)
    flush(world)
    world.machine.partition_count(TOPIC)
    world.settle(200)
    world.machine.send(PLACE, (1, None, b"a", ()), world.now)
    start = world.now
    world.run(until(lambda: bool(produced(world))))
    assert world.now - start >= 1000
    start = world.now
    for _ in range(10):
        world.machine.send(PLACE, (1, None, bytes(50), ()), world.now)
    assert world.machine.take_ready_sign()
    flush(world)
    assert world.now - start < 1000


def test_a_hint_of_the_new_leader_spares_the_metadata() -> None:
    """A broker that names the new leader (KIP-951) makes the producer send there without a pause or a Metadata
    request."""
    world = new_world()
    send(world)
    flush(world)
    world.model.move(0)
    world.model.hint_rate = 1
    asked = sum(request.api_key == METADATA for request in world.sent)
    start = world.now
    send(world)
    flush(world)
    assert world.now - start < 50
    assert [request.address for request in world.sent if request.api_key == PRODUCE][-1] == ("two", 9092)
    assert sum(request.api_key == METADATA for request in world.sent) <= asked + 1


def test_a_topic_without_records_is_no_longer_asked_for() -> None:
    """After five minutes without records the producer forgets a topic (`metadata.max.idle.ms`), so that it does not
    create a deleted one again; a topic with records is asked for every five minutes, and a forgotten one when it gets a
    record."""
    world = new_world()

    def requests() -> int:
        return sum(request.api_key == METADATA for request in world.sent)

    for _ in range(6):
        send(world)
        flush(world)
        world.settle(150_000)
    in_use = requests()
    world.settle(1_800_000)
    idle = requests()
    world.settle(1_800_000)

    assert in_use == 4
    assert idle <= in_use + 1
    assert requests() == idle
    assert world.machine.view.topic(TOPIC) is None
    assert not world.machine.metadata_are_old(world.now)
    assert send(world).error is None
    flush(world)
    assert requests() == idle + 1
    assert len(world.model.partitions[0].records) == 7


def test_a_throttled_producer_waits() -> None:
    """A broker that throttles the producer gets no request during that time (KIP-219)."""
    world = new_world()
    send(world)
    flush(world)
    world.model.throttle_time_ms = 5000
    send(world)
    flush(world)
    start = world.now
    world.model.throttle_time_ms = 0
    send(world)
    flush(world)
    assert world.now - start >= 4900


def test_lost_data_raises_the_epoch() -> None:
    """If the broker has lost acknowledged batches, the sequences restart at 0 under the next epoch (KIP-360)."""
    world = new_world()
    for _ in range(3):
        send(world)
        flush(world)
    (producer_id,) = world.model.partitions[0].producers
    world.model.partitions[0].producers[producer_id].last_sequence = 0
    deliveries = [send(world) for _ in range(3)]
    flush(world)
    assert all(delivery.error is None for delivery in deliveries)
    assert produced(world)[-3:] == [(producer_id, 1, 0), (producer_id, 1, 1), (producer_id, 1, 2)]


def test_the_last_epoch_is_followed_by_another_producer_id() -> None:
    """After epoch 32,767, the last one, the producer gets a new id, and its sequences restart at 0."""
    world = new_world()
    send(world)
    flush(world)
    (producer_id,) = world.model.partitions[0].producers
    world.machine._transactions.identity = world.machine._transactions.identity._replace(epoch=ProducerEpoch(32_767))
    send(world)
    flush(world)
    world.model.partitions[0].producers[producer_id].last_sequence = 99
    delivery = send(world)
    flush(world)
    assert delivery.error is None
    assert produced(world)[-1] == (producer_id + 1, 0, 0)


def test_an_expired_batch_says_what_is_known() -> None:
    """An expired batch that was never sent was not written; a batch whose answer is lost may have been written."""
    world = new_world(delivery_timeout_ms=600)
    world.faults.refused_connections = 1
    never = send(world)
    flush(world)
    assert isinstance(never.error, DeliveryTimedOut)
    assert "nothing was written" in str(never.error)
    world.heal()
    send(world)
    flush(world)
    world.faults.lost_answers = 1
    perhaps = send(world)
    flush(world)
    assert isinstance(perhaps.error, DeliveryTimedOut)
    assert "may have been written" in str(perhaps.error)
    world.heal()
    after = send(world)
    flush(world)
    assert after.error is None


def test_a_finished_batch_that_is_too_large_is_refused_alone() -> None:
    """A finished batch that is too large is refused alone and not split, because its bytes are the caller's; later
    batches succeed."""
    world = new_world()
    send(world)
    flush(world)
    world.model.partitions[0].largest_batch_bytes = 200
    large = world.machine.send_batch(PLACE, encode_batch([(1, None, bytes(100), ())] * 3), world.now)
    after = [send(world) for _ in range(3)]
    flush(world)
    assert large is not None
    assert isinstance(large.error, DeliveryRefused)
    assert large.error.code is ErrorCode.MESSAGE_TOO_LARGE
    assert "lower batch.size, or raise max.message.bytes" in str(large.error)
    assert [delivery.offset for delivery in after] == [1, 2, 3]


def test_a_broker_without_produce_ends_the_producer() -> None:
    """A broker without a common version of Produce makes all current and later sends fail with that reason."""
    world = new_world()
    world.model.offers = OFFERS_V2._replace(
        versions={key: versions for key, versions in OFFERS_V2.versions.items() if key}
    )
    delivery = send(world)
    flush(world)
    assert isinstance(delivery.error, ProducerFailed)
    assert "does not offer Produce" in str(delivery.error)
    with pytest.raises(ProducerFailed):
        send(world)


def test_close_ends_everything() -> None:
    """Closing a producer fails all unacknowledged batches and pending operations, and later sends are refused."""
    world = new_world(transactional_id="x")
    operation = world.machine.init_transactions()
    world.machine.close()
    assert isinstance(operation.error, ProducerClosed)
    with pytest.raises(ProducerClosed):
        send(world)
    world = new_world()
    delivery = send(world)
    world.machine.close()
    assert isinstance(delivery.error, ProducerClosed)
    assert world.machine.used_bytes == 0


def test_calls_in_the_wrong_state_are_refused() -> None:
    """A call in the wrong state is refused with an error that says what is missing, and the producer stays usable."""
    machine = ProducerMachine(ProducerConfig(CLIENT))
    with pytest.raises(InvalidTransactionCall, match=r"transactional\.id"):
        machine.begin()
    world = new_world(transactional_id="x")
    for call in (world.machine.begin, lambda: world.machine.end_transaction(commits=True), lambda: send(world)):
        with pytest.raises(InvalidTransactionCall, match="before init_transactions"):
            call()
    complete(world, world.machine.init_transactions())
    with pytest.raises(InvalidTransactionCall):
        send(world)
    begin(world)
    for call in (world.machine.begin, world.machine.init_transactions):
        with pytest.raises(InvalidTransactionCall):
            call()
    send(world)
    complete(world, world.machine.end_transaction(commits=True))
    assert world.model.partitions[0].committed() == [b"v"]


def test_a_commit_that_was_not_waited_for_is_found_again() -> None:
    """A second commit call returns the same pending commit; a new transaction is refused until the caller knows the
    result."""
    world = new_world(transactional_id="x")
    complete(world, world.machine.init_transactions())
    begin(world)
    send(world)
    operation = world.machine.end_transaction(commits=True)
    assert world.machine.end_transaction(commits=True) is operation
    world.settle(1000)
    assert operation.is_done
    with pytest.raises(InvalidTransactionCall, match="call commit_transaction again"):
        world.machine.begin()
    complete(world, world.machine.end_transaction(commits=True))
    begin(world)


def test_an_abort_drops_what_was_not_sent() -> None:
    """An abort drops records that wait for linger, and the first protocol sends no request to the coordinator in this
    case."""
    world = new_world(transactional_id="x", linger_ms=10_000, second_protocol=False)
    complete(world, world.machine.init_transactions())
    begin(world)
    delivery = world.machine.send(PLACE, (1, None, b"a", ()), world.now)
    complete(world, world.machine.end_transaction(commits=False))
    assert delivery is not None
    assert isinstance(delivery.error, TransactionAborted)
    assert not [request for request in world.sent if request.api_key in (PRODUCE, END_TXN)]


def test_another_producer_of_the_id_fences() -> None:
    """A commit after another producer's InitProducerId fails permanently with ProducerFenced."""
    world = new_world(transactional_id="x")
    complete(world, world.machine.init_transactions())
    begin(world)
    send(world)
    flush(world)
    fence(world.model)
    with pytest.raises(ProducerFenced):
        complete(world, world.machine.end_transaction(commits=True))
    with pytest.raises(ProducerFenced):
        send(world)
    assert isinstance(world.machine.failure, ProducerFenced)


def fence(model: ClusterModel) -> None:
    """Makes another producer initialize the transactional id."""
    request = InitProducerIdRequest(transactional_id="x", producer_id=ProducerId(-1), producer_epoch=-1)
    while model._init_producer_id(request, 4).error_code:
        model.settle()


def test_a_refused_record_fails_the_transaction() -> None:
    """After a refused record, the transaction can only be aborted. Each call fails with the refusal as its cause. The
    next transaction can commit."""
    world = new_world(transactional_id="x", second_protocol=False)
    complete(world, world.machine.init_transactions())
    begin(world)
    world.model.partitions[0].largest_batch_bytes = 70
    send(world, bytes(100))
    with pytest.raises(TransactionMustAbort, match="MESSAGE_TOO_LARGE"):
        complete(world, world.machine.end_transaction(commits=True))
    with pytest.raises(TransactionMustAbort) as refused:
        world.machine.begin()
    assert isinstance(refused.value.__cause__, DeliveryRefused)
    complete(world, world.machine.end_transaction(commits=False))
    begin(world)
    world.model.partitions[0].largest_batch_bytes = 1000
    send(world)
    complete(world, world.machine.end_transaction(commits=True))
    world.settle(1000)
    assert world.model.partitions[0].committed() == [b"v"]


def test_an_upgrade_to_the_second_protocol_gets_a_new_epoch() -> None:
    """After a connection reports `transaction.version=2`, the next transaction uses the second protocol with a new
    epoch."""
    world = new_world(transactional_id="x", second_protocol=False)
    complete(world, world.machine.init_transactions())
    begin(world)
    send(world)
    world.model.offers = OFFERS_V2._replace(finalized_features_epoch=2)
    for pipe in list(world._pipes.values()):
        world._break(pipe)
    complete(world, world.machine.end_transaction(commits=True))
    versions = [request.version for request in world.sent if request.api_key == PRODUCE]
    assert versions == [11] * len(versions)
    begin(world)
    send(world)
    complete(world, world.machine.end_transaction(commits=True))
    assert [request.version for request in world.sent if request.api_key == PRODUCE][-1] == 13
    assert [request.version for request in world.sent if request.api_key == END_TXN] == [4, 5]
    assert world.model.transactions["x"].epoch == 2
    world.settle(1000)
    assert world.model.partitions[0].committed() == [b"v", b"v"]


@pytest.mark.parametrize(
    "record",
    [
        (1, None, "text", ()),
        (1, "key", b"v", ()),
        (1.5, None, b"v", ()),
        (2**63, None, b"v", ()),
        (1, None, b"v", [("name", "text")]),
        (1, None, b"v", [("name", b"v"), ("\ud800", b"v")]),
        (1, None, b"v", [("name", b"v", b"more")]),
        (1, None, b"v", [(b"name", b"v")]),
    ],
)
def test_a_record_that_can_not_be_encoded_is_refused_at_once(record: Any) -> None:
    """A record of wrong types is refused by the call that sends it, and stops no other record."""
    world = new_world()
    with pytest.raises(TypeError, match="bytes or None"):
        world.machine.send(PLACE, record, world.now)
    delivery = send(world)
    flush(world)
    assert delivery.offset == 0
    kept = world.machine.send(PLACE, (1, bytearray(b"k"), memoryview(b"v"), [("name", b"")]), world.now)  # type: ignore[arg-type]
    flush(world)
    assert kept is not None
    assert kept.offset == 1


def test_a_failed_producer_opens_no_connection() -> None:
    """A producer that a broker does not accept any more asks for no metadata, since each connection would be refused
    again."""
    world = new_world()
    send(world)
    flush(world)
    world.machine.fail(AuthenticationFailed("the password was changed"))
    for pipe in list(world._pipes.values()):
        world._break(pipe)
    asked = len(world.sent)
    world.settle(600_000)
    assert len(world.sent) == asked
    assert not world._pipes


def test_a_refused_group_does_not_stop_an_abort() -> None:
    """The refusal to name a group's coordinator that comes after the call of abort does not end the producer."""
    world = new_world(transactional_id="x")
    complete(world, world.machine.init_transactions())
    begin(world)
    send(world)
    flush(world)
    find = world.model._find_coordinator

    def refuse_groups(request: FindCoordinatorRequest, version: int) -> FindCoordinatorResponse:
        answer = find(request, version)
        if request.key_type == GROUP:
            answer.coordinators[0].error_code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        return answer

    world.model._find_coordinator = refuse_groups  # type: ignore[method-assign]
    offsets = world.machine.send_offsets({PLACE: OffsetToCommit(Offset(1))}, "g", None)
    world.run(until(lambda: [request.api_key for request in world.sent].count(FIND_COORDINATOR) == 2))
    complete(world, world.machine.end_transaction(commits=False))
    assert isinstance(offsets.error, TransactionAborted)
    begin(world)


@pytest.mark.parametrize("topic", [b"t", None, "\udc00"])
def test_a_topic_that_is_no_text_is_refused_at_once(topic: Any) -> None:
    """A topic whose name can't be encoded is refused by the call that names it, and no later request names it."""
    world = new_world()
    with pytest.raises((TypeError, UnicodeEncodeError)):
        world.machine.partition_count(topic)
    delivery = send(world)
    flush(world)
    assert delivery.error is None


@pytest.mark.parametrize(
    ("offsets", "group"), [({PLACE: 17}, "g"), ({PLACE: OffsetToCommit(Offset(17))}, None), ({"t": 17}, "g")]
)
def test_offsets_that_can_not_be_encoded_are_refused_at_once(offsets: Any, group: Any) -> None:
    """Offsets of wrong types are refused by their own call, and the transaction can be committed without them."""
    world = new_world(transactional_id="x")
    complete(world, world.machine.init_transactions())
    begin(world)
    send(world)
    with pytest.raises(TypeError, match="OffsetToCommit"):
        world.machine.send_offsets(offsets, group, None)
    complete(world, world.machine.end_transaction(commits=True))
    world.settle(1000)
    assert world.model.partitions[0].committed() == [b"v"]


def test_a_batch_that_may_be_written_is_not_written_in_parts() -> None:
    """A batch is written, its answer is lost, and the broker finds the next attempt too large, because the limit was
    lowered meanwhile. The records fail and are not written a second time; the next batch continues."""
    world = new_world()
    send(world)
    flush(world)
    world.faults.lost_answers = 1
    deliveries = [world.machine.send(PLACE, (1, None, b"%d" % number, ()), world.now) for number in range(3)]
    flushed = world.machine.flush()
    world.run(until(lambda: len(world.model.partitions[0].records) == 4))
    world.heal()
    world.model.partitions[0].largest_batch_bytes = 80
    complete(world, flushed)
    for delivery in deliveries:
        assert delivery is not None
        assert isinstance(delivery.error, DeliveryRefused)
        assert "may have been written" in str(delivery.error)
    after = send(world)
    flush(world)
    assert after.offset == 4
    assert [value for value, _, _ in world.model.partitions[0].records] == [b"v", b"0", b"1", b"2", b"v"]


def test_a_batch_whose_connection_broke_is_split() -> None:
    """A batch that is too large may have been sent before: its connection broke. It is written in parts, because no
    attempt was written."""
    world = new_world()
    send(world)
    flush(world)
    world.model.partitions[0].largest_batch_bytes = 80
    world.faults.breaks = 1
    deliveries = [world.machine.send(PLACE, (1, None, b"%d" % number, ()), world.now) for number in range(3)]
    flushed = world.machine.flush()
    sent = len(produced(world))
    world.run(until(lambda: len(produced(world)) > sent))
    world.run(until(lambda: not world._pipes))
    world.heal()
    complete(world, flushed)
    assert [delivery.offset for delivery in deliveries if delivery is not None] == [1, 2, 3]
