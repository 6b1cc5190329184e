"""Tests InitProducerId for idempotent producers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, cast

import pytest

from klamm.broker.handlers import init_producer_id
from klamm.config.broker_config import BrokerConfig
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.init_producer_id_request import InitProducerIdRequest

Serve = Callable[[BrokerConfig], AbstractAsyncContextManager[Any]]


def test_every_idempotent_producer_gets_an_id_of_its_own(serve_metadata: Serve) -> None:
    """Every idempotent producer gets a new id with epoch 0, even a producer that has an id already."""

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig()) as broker:
            seen = set()
            for request in (
                InitProducerIdRequest(transactional_id=None),
                InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1),
                InitProducerIdRequest(transactional_id=None, producer_id=5, producer_epoch=3),
            ):
                response = await cast("Awaitable[Any]", init_producer_id.handle(broker.request(5), request))
                assert (response.error_code, response.producer_epoch) == (0, 0)
                seen.add(response.producer_id)
            assert len(seen) == 3

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (InitProducerIdRequest(transactional_id=None, producer_id=5), ErrorCode.INVALID_REQUEST),
        (InitProducerIdRequest(transactional_id=None, producer_epoch=5), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_refused_is_refused_for_good(
    serve_metadata: Serve, request_: InitProducerIdRequest, code: ErrorCode
) -> None:
    """A producer id without its epoch, or an epoch without its id, is refused with an error that clients do not
    retry."""

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig()) as broker:
            with pytest.raises(KafkaError) as caught:
                init_producer_id.handle(broker.request(5), request_)
            assert caught.value.code == code
            assert not code.retriable
            response = init_producer_id.error_response(request_, 5, code)
            assert (response.error_code, response.producer_id, response.producer_epoch) == (code, -1, -1)

    asyncio.run(scenario())


def test_a_producer_asks_again_while_the_store_gives_no_ids(serve_metadata: Serve) -> None:
    """If no block of producer ids can be allocated, a producer gets COORDINATOR_LOAD_IN_PROGRESS, as from Apache Kafka:
    clients ask again after this code, and some give up after a code that InitProducerId does not have in Kafka."""

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig()) as broker:
            await broker.store.close()
            request = InitProducerIdRequest(transactional_id=None)
            for _ in range(2):
                with pytest.raises(KafkaError) as caught:
                    await cast("Awaitable[Any]", init_producer_id.handle(broker.request(5), request))
                assert caught.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    asyncio.run(scenario())
