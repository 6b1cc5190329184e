"""Spark's errors about a flow's state that a restart can't remove, and what to do about them."""

from __future__ import annotations

from typing import Final

__all__ = ["ROCKSDB_ADVICE", "advice_on_state"]

_PROVIDER: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
ROCKSDB_ADVICE: Final = (
    "transformWithState needs the state store RocksDB: "
    f'Pipeline(…, conf={{"spark.sql.streaming.stateStore.providerClass": "{_PROVIDER}"}})'
)
_OTHER_STATE: Final = (
    "The checkpoint has the state of other operations than the flow's function. Restore these to go on; to begin again "
    "with an empty state, give the flow another name or delete its folder"
)
_NO_ROCKSDB: Final = "UNSUPPORTED_FEATURE.STORE_BACKEND_NOT_SUPPORTED_FOR_TWS"
# The conditions with which the messages of these errors begin.
_OTHER: Final = (
    "STATE_STORE_INVALID_CONFIG_AFTER_RESTART",
    "STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE",
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
    "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY",
    "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
)


def advice_on_state(line: str) -> str | None:
    """Returns what to do about an error of Spark; None unless it is one about the state that restarts can't remove."""
    condition = line[1:].partition("]")[0] if line.startswith("[") else ""
    if condition == _NO_ROCKSDB:
        return ROCKSDB_ADVICE
    return _OTHER_STATE if condition in _OTHER else None
