"""Tests that a worker does on Apache Kafka what it does on klamm: the same tests, with the same client settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
from tests.integration.worker import test_worker as handlers
from tests.integration.worker import test_worker_rebalances as rebalances
from tests.support.kafka_broker import ApacheKafka, KafkaUnavailable
from tests.support.share_of_gate import is_in_share_of_gate
from tests.support.toolchains import toolchain_is_missing

pytestmark = [
    pytest.mark.java,
    pytest.mark.skipif(
        not is_in_share_of_gate("workers on Apache Kafka", 3), reason="the gate runs it for a third of the commits"
    ),
]

CONFIG: Final = {
    **rebalances.CONFIG,
    "group.coordinator.rebalance.protocols": "classic,consumer",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
}

told = rebalances.told
"""The fixture that the tests of rebalances ask for."""


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """Runs Apache Kafka for all tests, and returns its address."""
    try:
        with ApacheKafka(CONFIG) as running:
            yield running.bootstrap_servers
    except KafkaUnavailable as error:
        toolchain_is_missing("java", str(error))


test_several_handlers_of_each_kind = handlers.test_several_handlers_of_each_kind
test_processes_that_die_or_hang = handlers.test_processes_that_die_or_hang
test_a_commit_names_what_is_finished_beyond_it = handlers.test_a_commit_names_what_is_finished_beyond_it
test_a_hot_key_is_named_and_other_partitions_go_on = handlers.test_a_hot_key_is_named_and_other_partitions_go_on
test_partitions_move_while_records_run = handlers.test_partitions_move_while_records_run
test_a_handler_longer_than_the_poll_interval = handlers.test_a_handler_longer_than_the_poll_interval
test_partitions_that_stay_go_on = rebalances.test_partitions_that_stay_go_on_while_another_one_drains
test_an_eager_rebalance_takes_all_partitions = rebalances.test_an_eager_rebalance_takes_all_partitions
test_static_members_keep_their_partitions = rebalances.test_static_members_keep_their_partitions
test_threads_commit_nothing_when_lost = rebalances.test_threads_commit_nothing_for_a_partition_that_was_lost
