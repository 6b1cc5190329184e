"""Tests that unrelated environment variables do not set a key."""

from __future__ import annotations

import logging

import pytest

from klamm.config.broker_config import BrokerConfig


def test_a_variable_that_stands_for_no_key_is_named_and_sets_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """A variable without a matching key is named in a warning and sets no key, so a typo does not appear in
    DescribeConfigs."""
    with caplog.at_level(logging.WARNING):
        config = BrokerConfig.load(
            environ={
                "KLAMM_LOG_RETENTON_MS": "1",
                "KLAMM_BOOTSTRAP_SERVER": "a:1",
                "KLAMM_CONFIG": "contexts.toml",
                "KLAMM_CONTEXT": "prod",
                "KLAMM_PURE_PYTHON": "1",
            }
        )
    assert not config.explicit.keys() & {"log.retenton.ms", "bootstrap.server"}
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == (
        "no configuration key has these environment variables; they are ignored: "
        "KLAMM_LOG_RETENTON_MS (did you mean KLAMM_LOG_RETENTION_MS?)"
    )
