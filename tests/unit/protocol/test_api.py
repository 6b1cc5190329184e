"""Tests the API table: Kafka's API keys, the version ranges of a 4.3 broker, and the message classes of each API."""

from __future__ import annotations

import pytest

from klamm.protocol.api import API_SPECS, ApiKey, ApiSpec

specs = pytest.mark.parametrize("spec", API_SPECS.values(), ids=lambda spec: spec.key.name)


@pytest.mark.parametrize(
    ("key", "low", "high", "flexible_from"),
    [
        (ApiKey.PRODUCE, 3, 13, 9),
        (ApiKey.FETCH, 4, 18, 12),
        (ApiKey.LIST_OFFSETS, 1, 11, 6),
        (ApiKey.METADATA, 0, 13, 9),
        (ApiKey.OFFSET_COMMIT, 2, 10, 8),
        (ApiKey.OFFSET_FETCH, 1, 10, 6),
        (ApiKey.JOIN_GROUP, 0, 9, 6),
        (ApiKey.SASL_HANDSHAKE, 0, 1, None),
        (ApiKey.API_VERSIONS, 0, 4, 3),
        (ApiKey.INIT_PRODUCER_ID, 0, 5, 2),
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, 0),
        (ApiKey.SHARE_FETCH, 1, 2, 0),
    ],
)
def test_ranges_are_those_of_a_current_broker(key: ApiKey, low: int, high: int, flexible_from: int | None) -> None:
    """Each API has Kafka's stable versions; unstable ones, such as the last one of InitProducerId, are left out."""
    spec = API_SPECS[key]
    assert (spec.min_version, spec.max_version, spec.flexible_from) == (low, high, flexible_from)


def test_numbers_are_kafkas() -> None:
    """API keys have Kafka's numbers, and the table has an entry for every API key."""
    assert (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.API_VERSIONS, ApiKey.SHARE_GROUP_HEARTBEAT) == (0, 1, 18, 76)
    assert set(API_SPECS) == set(ApiKey)


@specs
def test_request_and_response_belong_to_the_api(spec: ApiSpec) -> None:
    """The classes of an API have its API key and its versions, and come from the modules that its spec names."""
    request, response = spec.request_class(), spec.response_class()
    assert (spec.key, "request") == (request.API_KEY, request.TYPE)
    assert (spec.key, "response") == (response.API_KEY, response.TYPE)
    assert request.VERSIONS == response.VERSIONS == (spec.min_version, spec.max_version)
    assert request.FLEXIBLE_FROM == response.FLEXIBLE_FROM == spec.flexible_from
    assert request.__module__ == f"klamm.protocol.schema.{spec.request_module}"
    assert response.__module__ == f"klamm.protocol.schema.{spec.response_module}"


def test_a_spec_answers_for_versions() -> None:
    """A spec knows which versions of an API exist, and which of them are flexible (have tagged fields)."""
    spec = API_SPECS[ApiKey.FETCH]
    assert [spec.supports(version) for version in (3, 4, 18, 19)] == [False, True, True, False]
    assert [spec.is_flexible(version) for version in (11, 12)] == [False, True]
    assert not API_SPECS[ApiKey.SASL_HANDSHAKE].is_flexible(1)
