"""Tests the handlers of the transaction APIs with encoded requests in every version."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.steps import finish
from tests.unit.broker.handlers.group_broker import GroupBroker, versions_of
from tests.unit.runtime.transaction_world import E0, ID

from klamm.broker.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    find_coordinator,
    init_producer_id,
    list_transactions,
)
from klamm.core.txn.transaction_state import TransactionState
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from klamm.protocol.schema.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from klamm.protocol.schema.describe_transactions_request import DescribeTransactionsRequest
from klamm.protocol.schema.end_txn_request import EndTxnRequest
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.init_producer_id_request import InitProducerIdRequest
from klamm.protocol.schema.list_transactions_request import ListTransactionsRequest


def with_producer() -> tuple[GroupBroker, tuple[int, int]]:
    """Returns a broker, and a producer that can begin a transaction."""
    broker = GroupBroker()
    return broker, broker.transactions.inited()


def add(broker: GroupBroker, producer: tuple[int, int], version: int, *partitions: int) -> dict[int, int]:
    """Sends AddPartitionsToTxn for partitions of the topic events, and returns the codes."""
    topics = [AddPartitionsToTxnTopic(name="events", partitions=list(partitions))]
    if version >= 4:
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=ID, producer_id=producer[0], producer_epoch=producer[1], topics=topics
        )
        request = AddPartitionsToTxnRequest(transactions=[transaction])
    else:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=ID,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=topics,
        )
    response = broker.ask(add_partitions_to_txn, request, version)
    results = response.results_by_topic_v3_and_below
    if version >= 4:
        (result,) = response.results_by_transaction
        assert result.transactional_id == ID
        results = result.topic_results
    return {each.partition_index: each.partition_error_code for each in results[0].results_by_partition}


@pytest.mark.parametrize("version", versions_of(ApiKey.FIND_COORDINATOR)[1:])
def test_coordinator_of_a_transactional_id_is_found(version: int) -> None:
    """The coordinator of a transactional id is found, and the first request creates its topic."""
    broker = GroupBroker()
    keys: dict[str, Any] = {"coordinator_keys": [ID]} if version >= 4 else {"key": ID}
    found = broker.ask(find_coordinator, FindCoordinatorRequest(key_type=1, **keys), version)
    found = found.coordinators[0] if version >= 4 else found
    assert (found.error_code, found.node_id, found.host, found.port) == (ErrorCode.NONE, 1, "reached", 1234)
    assert broker.created == ["__transaction_state"]


@pytest.mark.parametrize("version", versions_of(ApiKey.INIT_PRODUCER_ID))
def test_transactional_id_is_initialized(version: int) -> None:
    """Each producer with the same transactional id gets the next epoch."""
    broker = GroupBroker()
    request = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=1000)
    first, second = (broker.ask(init_producer_id, request, version) for _ in range(2))
    assert (first.error_code, first.producer_epoch) == (0, 0)
    assert (second.producer_id, second.producer_epoch) == (first.producer_id, 1)


@pytest.mark.parametrize("version", versions_of(ApiKey.ADD_PARTITIONS_TO_TXN))
def test_partitions_are_added(version: int) -> None:
    """Partitions are added in every version; since version 4, the request has a list of transactions."""
    broker, producer = with_producer()
    assert add(broker, producer, version, 0, 1) == {0: ErrorCode.NONE, 1: ErrorCode.NONE}
    assert len(broker.transactions.transaction().partitions) == 2


@pytest.mark.parametrize("version", versions_of(ApiKey.ADD_PARTITIONS_TO_TXN))
def test_partition_that_does_not_exist_keeps_the_others_out(version: int) -> None:
    """If one partition does not exist, no partition is added, and each partition has its own error."""
    broker, producer = with_producer()
    codes = add(broker, producer, version, 0, 7)
    assert codes == {0: ErrorCode.OPERATION_NOT_ATTEMPTED, 7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert broker.transactions.state() is TransactionState.EMPTY


@pytest.mark.parametrize("version", versions_of(ApiKey.ADD_OFFSETS_TO_TXN))
def test_offsets_are_added_as_the_partition_of_their_group(version: int) -> None:
    """The offsets of a group are added as the group's partition of the offsets topic, for the original transaction
    version."""
    broker, producer = with_producer()
    request = AddOffsetsToTxnRequest(
        transactional_id=ID, producer_id=producer[0], producer_epoch=producer[1], group_id="orders"
    )
    assert broker.ask(add_offsets_to_txn, request, version).error_code == 0
    transaction = broker.transactions.transaction()
    partition = broker.world.coordinator.partition_for("orders")
    assert transaction.partitions == {("__consumer_offsets", partition)}
    assert transaction.client_transaction_version == 0


@pytest.mark.parametrize("version", versions_of(ApiKey.ADD_OFFSETS_TO_TXN))
def test_fenced_producer_adds_no_offsets(version: int) -> None:
    """A fenced producer gets PRODUCER_FENCED since version 2, and INVALID_PRODUCER_EPOCH before."""
    broker, producer = with_producer()
    broker.transactions.inited()
    request = AddOffsetsToTxnRequest(
        transactional_id=ID, producer_id=producer[0], producer_epoch=producer[1], group_id="orders"
    )
    expected = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert broker.ask(add_offsets_to_txn, request, version).error_code == expected


@pytest.mark.parametrize("version", versions_of(ApiKey.END_TXN))
def test_transaction_is_ended(version: int) -> None:
    """A transaction is committed; since version 5, the answer has the producer's next epoch."""
    broker, producer = with_producer()
    broker.transactions.add_code(producer, version=5 if version >= 5 else 3)
    request = EndTxnRequest(transactional_id=ID, producer_id=producer[0], producer_epoch=producer[1], committed=True)
    response = broker.ask(end_txn, request, version)
    assert response.error_code == 0
    following = (producer[0], 1) if version >= 5 else (-1, -1)
    assert (response.producer_id, response.producer_epoch) == following
    broker.transactions.settle()
    assert broker.transactions.state() is TransactionState.COMPLETE_COMMIT


def test_transactions_are_described_in_the_order_asked_for() -> None:
    """Transactions are described in the requested order with their partitions, and each unknown or empty id has an
    error."""
    broker, producer = with_producer()
    broker.transactions.add_code(producer)
    request = DescribeTransactionsRequest(transactional_ids=["other", ID, ""])
    other, found, nameless = broker.ask(describe_transactions, request, 0).transaction_states
    assert other.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert nameless.error_code == ErrorCode.INVALID_REQUEST
    assert (found.error_code, found.transactional_id, found.transaction_state) == (0, ID, "Ongoing")
    assert (found.producer_id, found.producer_epoch) == producer
    assert found.transaction_timeout_ms == 60_000
    assert found.transaction_start_time_ms > 0
    assert [(topic.topic, topic.partitions) for topic in found.topics] == [(E0.topic, [E0.partition])]


def listed(broker: GroupBroker, version: int, **filters: Any) -> set[str]:
    """Returns the transactional ids that pass the filters."""
    response = broker.ask(list_transactions, ListTransactionsRequest(**filters), version)
    assert response.error_code == 0
    return {each.transactional_id for each in response.transaction_states}


@pytest.mark.parametrize("version", versions_of(ApiKey.LIST_TRANSACTIONS))
def test_transactions_are_listed(version: int) -> None:
    """Transactions are listed by state and producer, and unknown states are returned in the answer."""
    broker, producer = with_producer()
    broker.transactions.inited("other")
    broker.transactions.add_code(producer)
    assert listed(broker, version) == {ID, "other"}
    assert listed(broker, version, state_filters=["Ongoing"]) == {ID}
    assert listed(broker, version, state_filters=["Ongoing", "Empty"]) == {ID, "other"}
    assert listed(broker, version, producer_id_filters=[producer[0]]) == {ID}
    request = ListTransactionsRequest(state_filters=["Asleep"])
    response = broker.ask(list_transactions, request, version)
    assert response.unknown_state_filters == ["Asleep"]
    assert not response.transaction_states


def test_transactions_are_listed_by_duration() -> None:
    """A duration filter lists the transactions that are open for longer; a transaction that has not begun counts as
    very old, as in Kafka."""
    broker, producer = with_producer()
    broker.transactions.add_code(producer)
    broker.transactions.timers.advance(5000)
    assert listed(broker, 1, duration_filter=4000) == {ID}
    assert listed(broker, 1, duration_filter=6000) == set()
    broker.transactions.inited("other")
    assert listed(broker, 1, duration_filter=6000) == {"other"}


def test_transactions_are_listed_by_pattern() -> None:
    """A pattern must match the whole transactional id."""
    broker, _ = with_producer()
    broker.transactions.inited("other")
    assert listed(broker, 2, transactional_id_pattern="tr.*") == {ID}
    assert listed(broker, 2, transactional_id_pattern="tr") == set()
    assert listed(broker, 2, transactional_id_pattern="") == {ID, "other"}


def test_pattern_that_is_none_is_refused() -> None:
    """An invalid pattern is refused even if there are no transactions."""
    broker = GroupBroker()
    request = ListTransactionsRequest(transactional_id_pattern="a(b")
    with pytest.raises(KafkaError) as refused:
        finish(list_transactions.handle(broker.request(ApiKey.LIST_TRANSACTIONS, 2), request))
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    response = list_transactions.error_response(request, 2, refused.value.code)
    assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_nothing_is_decided_before_the_coordinator_begins() -> None:
    """While the coordinator is stopped, each API answers COORDINATOR_NOT_AVAILABLE in its own form, so that clients
    retry."""
    broker, producer = with_producer()
    broker.transactions.coordinator.stop()
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    init = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=1)
    assert broker.ask(init_producer_id, init, 5).error_code == code
    assert add(broker, producer, 5, 0) == {0: code}
    assert broker.ask(end_txn, EndTxnRequest(transactional_id=ID), 5).error_code == code
    assert broker.ask(list_transactions, ListTransactionsRequest(), 2).error_code == code
    described = broker.ask(describe_transactions, DescribeTransactionsRequest(transactional_ids=[ID]), 0)
    assert described.transaction_states[0].error_code == code


def test_failures_before_the_coordinator_have_the_shape_of_each_api() -> None:
    """An error before the coordinator is reported in the form of each API."""
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    topics = [AddPartitionsToTxnTopic(name="events", partitions=[0])]
    old = AddPartitionsToTxnRequest(v3_and_below_transactional_id=ID, v3_and_below_topics=topics)
    refused = add_partitions_to_txn.error_response(old, 3, code)
    assert refused.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == code
    assert add_partitions_to_txn.error_response(AddPartitionsToTxnRequest(), 4, code).error_code == code
    assert add_offsets_to_txn.error_response(AddOffsetsToTxnRequest(), 4, code).error_code == code
    assert end_txn.error_response(EndTxnRequest(), 5, code).error_code == code
    described = describe_transactions.error_response(DescribeTransactionsRequest(transactional_ids=[ID]), 0, code)
    assert described.transaction_states[0].error_code == code
