"""Tests which of Spark's errors are about a flow's state. The texts are Spark's, of PySpark 4.3."""

from __future__ import annotations

from klamm.pipelines.run.state_errors import ROCKSDB_ADVICE, advice_on_state


def test_errors_about_the_state() -> None:
    """A state that does not fit and a missing RocksDB have an advice; other errors have none."""
    schema = "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match existing state key schema."
    store = "[UNSUPPORTED_FEATURE.STORE_BACKEND_NOT_SUPPORTED_FOR_TWS] The feature is not supported: Store backend"

    assert "Restore these to go on" in str(advice_on_state(schema))
    assert advice_on_state(store) == ROCKSDB_ADVICE
    assert advice_on_state("[DIVIDE_BY_ZERO] Division by zero.") is None
    assert advice_on_state("ValueError: STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE") is None
