"""The page of figures."""

from __future__ import annotations

import pytest

from klamm.broker.services.metrics import MetricsUnavailable, parse_address


@pytest.mark.parametrize("text", ["9404", "localhost:", "localhost:http", "localhost:70000"])
def test_an_address_that_is_none_is_refused(text: str) -> None:
    """The error shows how one looks."""
    with pytest.raises(MetricsUnavailable, match="is not HOST:PORT, such as"):
        parse_address(text)


def test_an_address_without_a_host_is_this_machine() -> None:
    """Figures are not for everybody unless somebody says so."""
    assert parse_address(":9404") == ("127.0.0.1", 9404)
    assert parse_address("[::1]:9404") == ("::1", 9404)
