"""Conversations with the transaction coordinator: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn,
DescribeTransactions, ListTransactions."""

from __future__ import annotations

from typing import Any

from tests.interop.wire_conversations.talk import Talk, conversation
from tests.interop.wire_conversations.transactional_producer import TransactionalProducer

from klamm.protocol.api import ApiKey
from klamm.protocol.schema.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from klamm.protocol.schema.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from klamm.protocol.schema.describe_transactions_request import DescribeTransactionsRequest
from klamm.protocol.schema.end_txn_request import EndTxnRequest
from klamm.protocol.schema.init_producer_id_request import InitProducerIdRequest
from klamm.protocol.schema.list_transactions_request import ListTransactionsRequest

BROKERS_FROM = 4
"""From this version of AddPartitionsToTxn on, brokers send it, for several transactions at once."""
NOBODYS_PRODUCER_ID = 2**40
"""An id that neither broker has assigned. A small number could be the id of another conversation's producer."""


@conversation(ApiKey.INIT_PRODUCER_ID)
def init_transactional_producer_id(talk: Talk) -> None:
    """Initializes a new producer and the same producer again, and sends requests that are refused."""
    transactional_id = talk.name("producer")
    for timeout_ms in (60_000, 60_000, 0, -1, 900_001):
        talk.ask(InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms))
    if talk.version >= 3:
        producer = TransactionalProducer(talk)
        for producer_id, epoch in (
            (producer.producer_id, producer.epoch),
            (producer.producer_id, producer.epoch),
            (producer.producer_id, 99),
            (NOBODYS_PRODUCER_ID, 0),
            (NOBODYS_PRODUCER_ID, -1),
        ):
            request = InitProducerIdRequest(
                transactional_id=transactional_id,
                transaction_timeout_ms=60_000,
                producer_id=producer_id,
                producer_epoch=epoch,
            )
            talk.ask(request)


@conversation(ApiKey.ADD_PARTITIONS_TO_TXN)
def partitions_of_a_transaction(talk: Talk) -> None:
    """Adds partitions that exist and partitions that don't, as fenced and unknown producers too."""
    topic = talk.topic("topic", 2)
    producer = TransactionalProducer(talk)

    def add(name: str, *partitions: int, **changes: Any) -> None:
        topics = [AddPartitionsToTxnTopic(name=name, partitions=list(partitions))]
        fields = producer.identity | changes
        talk.ask(
            AddPartitionsToTxnRequest(
                transactions=[AddPartitionsToTxnTransaction(topics=topics, **fields)],
                v3_and_below_topics=topics,
                **{f"v3_and_below_{key}": value for key, value in fields.items() if key != "verify_only"},
            )
        )

    if talk.version >= BROKERS_FROM:
        add(topic.name, 0, verify_only=True)
    add(topic.name, 0)
    add(topic.name, 0, 1)
    add(topic.name, 1, 7)
    add("wire-no-such-topic", 0)
    if talk.version >= BROKERS_FROM:
        add(topic.name, 0, verify_only=True)
    add(topic.name, 0, producer_epoch=9)
    add(topic.name, 0, producer_id=NOBODYS_PRODUCER_ID)
    add(topic.name, 0, transactional_id=talk.name("nobody"))
    add(topic.name, 0, transactional_id="")


@conversation(ApiKey.ADD_OFFSETS_TO_TXN)
def offsets_of_a_transaction(talk: Talk) -> None:
    """Adds the offsets of a group that doesn't exist to a transaction, as fenced and unknown producers too."""
    producer = TransactionalProducer(talk)
    for changes in (
        {},
        {},
        {"producer_epoch": 9},
        {"producer_id": NOBODYS_PRODUCER_ID},
        {"transactional_id": talk.name("nobody")},
    ):
        talk.ask(AddOffsetsToTxnRequest(group_id=talk.name("group"), **(producer.identity | changes)))


@conversation(ApiKey.END_TXN)
def ends_of_transactions(talk: Talk) -> None:
    """Ends a transaction that is open, one that isn't, one twice, and one with the opposite result."""
    topic = talk.topic("topic")

    def end(producer: TransactionalProducer, *, committed: bool, **changes: Any) -> None:
        talk.ask(EndTxnRequest(committed=committed, **(producer.identity | changes)))

    nothing = TransactionalProducer(talk, "nothing")
    end(nothing, committed=True)
    producer = TransactionalProducer(talk)
    producer.add(topic, 0)
    end(producer, committed=True, producer_epoch=9)
    end(producer, committed=True, producer_id=NOBODYS_PRODUCER_ID)
    end(producer, committed=True, transactional_id=talk.name("nobody"))
    end(producer, committed=True)
    producer.wait_until_complete()
    end(producer, committed=True)
    end(producer, committed=False)


@conversation(ApiKey.DESCRIBE_TRANSACTIONS)
def descriptions_of_transactions(talk: Talk) -> None:
    """Describes an empty, an open, a complete and an unknown transaction."""
    topic = talk.topic("topic", 2)
    producer = TransactionalProducer(talk)
    request = DescribeTransactionsRequest(transactional_ids=[producer.transactional_id, talk.name("nobody"), ""])
    talk.ask(request)
    producer.add(topic, 0, 1)
    talk.ask(request)
    producer.end(committed=False)
    talk.ask(request)


@conversation(ApiKey.LIST_TRANSACTIONS)
def lists_of_transactions(talk: Talk) -> None:
    """Lists transactions by state, producer and duration, and by a pattern since version 2."""
    topic = talk.topic("topic")
    producer = TransactionalProducer(talk)
    producer.add(topic, 0)
    mine = [producer.producer_id]
    for fields in (
        {"producer_id_filters": mine},
        {"producer_id_filters": mine, "state_filters": ["Ongoing"]},
        {"producer_id_filters": mine, "state_filters": ["Empty", "Strange"]},
        {"producer_id_filters": mine, "state_filters": ["Strange", "Strange"]},
        {"producer_id_filters": [NOBODYS_PRODUCER_ID]},
        {"producer_id_filters": mine, "duration_filter": 3_600_000},
        {"producer_id_filters": mine, "transactional_id_pattern": ".*producer"},
        {"producer_id_filters": mine, "transactional_id_pattern": ".*consumer"},
        {"producer_id_filters": mine, "transactional_id_pattern": "("},
    ):
        talk.ask(ListTransactionsRequest(**fields))
