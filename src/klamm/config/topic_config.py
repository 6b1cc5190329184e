"""What one topic is set to: the values that its log and its partitions act on.

Source of keys, types and defaults: `storage/internals/log/LogConfig.java` of Apache Kafka 4.3. The table of all keys,
with documentation and ranges, is in `table.py`; values are checked when they are set (`validation.py`), so what is read
back here is known to be good.
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
    """The configuration of one topic; `TopicConfig()` is a topic of a Kafka broker on which nothing was set.

    One field for each topic key that has a say, named as the key with dots as underscores. -1 in a retention is no
    limit.
    """

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    compression_gzip_level: int = -1
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    index_interval_bytes: int = 4096
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

    @property
    def compact(self) -> bool:
        """Whether the newest record of each key is to be kept (and a record without a key is refused)."""
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        """Whether segments go by age and size."""
        return "delete" in self.cleanup_policy

    @property
    def max_segment_ms(self) -> int:
        """The age at which a segment is rolled: a compacted topic rolls in time for its compaction lag (KIP-354)."""
        if self.compact and self.max_compaction_lag_ms > 0:
            return min(self.max_compaction_lag_ms, self.segment_ms)
        return self.segment_ms

    @classmethod
    def from_mapping(cls, overrides: Mapping[str, str], defaults: Self | None = None) -> Self:
        """The configuration with `overrides` (Kafka's topic keys) laid over `defaults` (`BrokerConfig.topic_defaults`).

        Keys that have no say here are passed over; values must have been validated.
        """
        base = cls() if defaults is None else defaults
        if not overrides:
            return base
        changes: dict[str, Any] = {}
        for key, text in overrides.items():
            parse = _PARSERS.get(key)
            if parse is not None:
                changes[key.replace(".", "_")] = parse(key, text)
        # Kafka's internal key goes below the 1 MiB floor of segment.bytes, so that a test can roll segments.
        if "internal.segment.bytes" in overrides:
            changes["segment_bytes"] = _PARSERS["segment.bytes"]("", overrides["internal.segment.bytes"])
        return replace(base, **changes)


def _parser(default: object) -> Callable[[str, str], Any]:
    """What reads the text of a key, by the type of its default; as `validation.py` has read it."""
    if isinstance(default, frozenset):
        return lambda name, text: frozenset(filter(None, parse_list(text.lower())))
    kind = "LONG" if isinstance(default, int) else "DOUBLE" if isinstance(default, float) else "STRING"
    return lambda name, text: parse_value(name, text, kind)


_PARSERS: Final[dict[str, Callable[[str, str], Any]]] = {
    field.name.replace("_", "."): _parser(field.default) for field in fields(TopicConfig)
}
