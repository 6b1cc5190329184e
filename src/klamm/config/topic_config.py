"""The configuration of one topic: the values that its log and its partitions use.

Source of keys, types and defaults: `storage/internals/log/LogConfig.java` of Apache Kafka 4.3. The table of all keys,
with documentation and ranges, is in `table.py`. Values are checked when they are set (`validation.py`), so the values
that are read here are valid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Self

from klamm.config.values import parse_list, parse_value

__all__ = ["LONG_MAX", "TopicConfig"]

LONG_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The configuration of one topic; `TopicConfig()` has Kafka's defaults.

    One field for each topic key that klamm honours, named as the key with dots as underscores. A retention of -1 means
    no limit.
    """

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    compression_gzip_level: int = -1
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    follower_replication_throttled_replicas: frozenset[str] = frozenset()
    index_interval_bytes: int = 4096
    leader_replication_throttled_replicas: frozenset[str] = frozenset()
    max_compaction_lag_ms: int = LONG_MAX
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    unclean_leader_election_enable: bool = False

    @property
    def compact(self) -> bool:
        """Whether the newest record of each key is kept, and records without a key are refused."""
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        """Whether segments are deleted by age and size."""
        return "delete" in self.cleanup_policy

    @property
    def max_segment_ms(self) -> int:
        """The age at which a segment is rolled: a compacted topic rolls in time for its compaction lag (KIP-354)."""
        if self.compact and self.max_compaction_lag_ms > 0:
            return min(self.max_compaction_lag_ms, self.segment_ms)
        return self.segment_ms

    @classmethod
    def from_mapping(cls, overrides: Mapping[str, str], defaults: Self | None = None) -> Self:
        """Returns `defaults` (`BrokerConfig.topic_defaults`), changed by `overrides` (Kafka's topic keys).

        Keys without a field are ignored; values must have been validated.
        """
        base = cls() if defaults is None else defaults
        if not overrides:
            return base
        changes: dict[str, Any] = {}
        for key, text in overrides.items():
            parse = _PARSERS.get(key)
            if parse is not None:
                changes[key.replace(".", "_")] = parse(key, text)
        # Kafka's internal key may be below the 1 MiB minimum of segment.bytes, so that a test can roll segments.
        if "internal.segment.bytes" in overrides:
            changes["segment_bytes"] = _PARSERS["segment.bytes"]("", overrides["internal.segment.bytes"])
        return replace(base, **changes)


_KINDS: Final[dict[type, str]] = {bool: "BOOLEAN", int: "LONG", float: "DOUBLE"}


def _parser(default: object) -> Callable[[str, str], Any]:
    """Returns the function that parses a key's text, by the type of its default; it parses as `validation.py` does."""
    if isinstance(default, frozenset):
        return lambda name, text: frozenset(filter(None, parse_list(text.lower())))
    kind = _KINDS.get(type(default), "STRING")
    return lambda name, text: parse_value(name, text, kind)


_PARSERS: Final[dict[str, Callable[[str, str], Any]]] = {
    field.name.replace("_", "."): _parser(field.default) for field in fields(TopicConfig)
}
