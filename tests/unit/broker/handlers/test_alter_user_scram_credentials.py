"""Tests with which errors AlterUserScramCredentials refuses passwords."""

from __future__ import annotations

from typing import Any, cast

from tests.support.event_loop import in_loop
from tests.support.steps import finished

from klamm.broker.handlers.alter_user_scram_credentials import handle
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

CONTEXT = cast(Any, None)


@in_loop
async def test_a_user_may_be_named_once() -> None:
    """The second valid password of a user gets DUPLICATE_RESOURCE, as in Kafka. After another error, that error
    stays."""
    passwords = [("amalia", 1), ("olga", 7), ("olga", 1), ("amalia", 2), ("pepi", 1), ("frieda", 2)]
    request = AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name="frieda", mechanism=1)],
        upsertions=[
            ScramCredentialUpsertion(name=name, mechanism=mechanism, iterations=4096) for name, mechanism in passwords
        ],
    )
    response = await finished(handle(CONTEXT, request))
    assert {each.user: each.error_code for each in response.results} == {
        "amalia": ErrorCode.DUPLICATE_RESOURCE,
        "olga": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        "pepi": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        "frieda": ErrorCode.RESOURCE_NOT_FOUND,
    }
