"""Tests that a client finds out whether the markers of ended transactions are written."""

from __future__ import annotations

from contextlib import closing

from confluent_kafka import Producer

from klamm.client.cluster import Cluster
from klamm.client.config import ClientConfig
from klamm.client.transaction_listing import TransactionsClient
from klamm.protocol.schema.list_transactions_request import ListTransactionsRequest
from klamm.testing import Broker

_PATIENCE_S = 30


def test_markers_are_due_only_for_ended_transactions() -> None:
    """An open transaction has no markers that are due; those of a committed one are written within a short time."""
    with Broker() as broker:
        config = ClientConfig.from_mapping({"bootstrap.servers": broker.bootstrap_servers})
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "orders"})
        producer.init_transactions(_PATIENCE_S)
        producer.begin_transaction()
        producer.produce("orders", "1")
        producer.flush(_PATIENCE_S)
        with closing(TransactionsClient(Cluster(config))) as client:
            states = [each.transaction_state for _, each in client.transactional_ids(ListTransactionsRequest())]
            assert states == ["Ongoing"]
            assert not client.markers_are_due()
            producer.commit_transaction(_PATIENCE_S)
            assert client.wait_for_markers(_PATIENCE_S)
            states = [each.transaction_state for _, each in client.transactional_ids(ListTransactionsRequest())]
            assert states == ["CompleteCommit"]
