"""Tests which quotas AlterClientQuotas refuses, and with which errors."""

from __future__ import annotations

from typing import Any, cast

import pytest
from tests.support.event_loop import in_loop
from tests.support.steps import finished

from klamm.broker.handlers.alter_client_quotas import handle
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.alter_client_quotas_request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from klamm.protocol.schema.alter_client_quotas_response import AlterClientQuotasResponse

CONTEXT = cast(Any, None)
REMOVE = OpData(key="producer_byte_rate", remove=True)


def entry(*operations: OpData, **entity: str | None) -> EntryData:
    """Returns changes of an entity; underscores in its types stand for hyphens."""
    kinds = [EntityData(entity_type=kind.replace("_", "-"), entity_name=name) for kind, name in entity.items()]
    return EntryData(entity=kinds, ops=list(operations))


async def alter(*entries: EntryData) -> AlterClientQuotasResponse:
    return await finished(handle(CONTEXT, AlterClientQuotasRequest(entries=list(entries))))


@in_loop
async def test_a_quota_that_is_not_there_can_be_removed() -> None:
    """Every quota can be removed, even with a key that does not exist, because no quota is there."""
    unknown = OpData(key="no_such_quota", remove=True)
    response = await alter(entry(REMOVE, unknown, user="amalia"), entry(REMOVE, user="amalia", client_id=None))
    assert [each.error_code for each in response.entries] == [ErrorCode.NONE, ErrorCode.NONE]


@in_loop
async def test_a_quota_is_refused() -> None:
    """A valid quota is refused as not supported, because nothing would enforce it."""
    response = await alter(entry(OpData(key="producer_byte_rate", value=1000.0), user="amalia"))
    assert response.entries[0].error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (entry(REMOVE), "Invalid empty client quota entity"),
        (entry(REMOVE, castle="west"), "Unhandled client quota entity type: castle"),
        (entry(REMOVE, user=""), "Empty user not supported"),
        (
            entry(REMOVE, user="amalia", ip="127.0.0.1"),
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
        ),
        (entry(OpData(key="no_such_quota", value=1.0), user="amalia"), "Invalid configuration key no_such_quota"),
        (entry(OpData(key="producer_byte_rate", value=1.0), ip=None), "Invalid configuration key producer_byte_rate"),
        (
            entry(OpData(key="producer_byte_rate", value=0.0), user="amalia"),
            "Quota producer_byte_rate must be greater than 0",
        ),
        (
            entry(OpData(key="consumer_byte_rate", value=1e19), user="amalia"),
            "Proposed value for consumer_byte_rate is too large for a LONG.",
        ),
        (
            entry(OpData(key="connection_creation_rate", value=0.5), ip=None),
            "connection_creation_rate cannot be a fractional value.",
        ),
        (
            entry(REMOVE, REMOVE, user="amalia", client_id=None),
            "Ignoring duplicate entity ClientQuotaEntity(entries={user=amalia, client-id=null})",
        ),
    ],
)
@in_loop
async def test_an_invalid_change_is_refused(wanted: EntryData, message: str) -> None:
    """An invalid entity is refused even if nothing is set; a value is checked before quotas are refused at all."""
    (answer,) = (await alter(wanted)).entries
    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_REQUEST, message)


@in_loop
async def test_an_entity_may_be_named_once() -> None:
    """An entity that is named twice is answered once, with an error; other entities are not affected."""
    response = await alter(entry(REMOVE, user="amalia"), entry(REMOVE, user="olga"), entry(REMOVE, user="amalia"))
    assert [(each.entity[0].entity_name, each.error_code) for each in response.entries] == [
        ("amalia", ErrorCode.INVALID_REQUEST),
        ("olga", ErrorCode.NONE),
    ]
