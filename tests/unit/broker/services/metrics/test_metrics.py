"""Tests the address of the metrics page."""

from __future__ import annotations

import pytest

from klamm.broker.services.metrics.metrics import MetricsUnavailable, parse_address


@pytest.mark.parametrize("text", ["9404", "localhost:", "localhost:http", "localhost:70000"])
def test_an_address_that_is_none_is_refused(text: str) -> None:
    """An invalid address is refused with an error that shows an example."""
    with pytest.raises(MetricsUnavailable, match="is not HOST:PORT, such as"):
        parse_address(text)


def test_an_address_without_a_host_is_this_machine() -> None:
    """An address without a host means the local machine, because metrics are public only if the user says so."""
    assert parse_address(":9404") == ("127.0.0.1", 9404)
    assert parse_address("[::1]:9404") == ("::1", 9404)
