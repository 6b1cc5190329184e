"""What the assignor `load` may be told by a group's configuration, `klamm.consumer.assignor.load.*`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

__all__ = ["DEFAULT_LOAD_SETTINGS", "TOPIC_WEIGHT_PREFIX", "LoadSettings"]

TOPIC_WEIGHT_PREFIX: Final = "topic.weight."


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSettings:
    """Each field says its key, without `klamm.consumer.assignor.load.`. None may be negative, `lag_drain_ms` not 0."""

    lag_drain_ms: float = 300_000
    """`lag.drain.ms`: the time in which a group should work off its lag. The shorter, the more lag weighs beside the
    arrival rate."""
    partition_cost: float = 1
    """`partition.cost`: what a partition costs its member even if nothing arrives, in records a second."""
    topic_weights: Mapping[str, float] = field(default_factory=dict)
    """`topic.weight.TOPIC`: how much dearer than usual a record of that topic is; 1 unless it is set."""
    hysteresis_ratio: float = 0.2
    """`hysteresis.ratio`: by how much of the lighter one's load two members have to differ before a partition moves,
    and how much the heaviest load has to fall for a rebalance."""
    min_dwell_ms: float = 300_000
    """`min.dwell.ms`: how long a group rests after a rebalance before load alone is cause for another, and a partition
    after it moved."""
    target_lag: float = 0
    """`target.lag`: the lag of the whole group, in records, for which "members needed" is worked out; it should be
    reached within `lag.drain.ms`."""

    @classmethod
    def from_mapping(cls, settings: Mapping[str, float]) -> LoadSettings:
        """From `GroupSpec.settings`; names that mean nothing here are passed over."""
        if not settings:
            return DEFAULT_LOAD_SETTINGS
        names = {name.replace("_", "."): name for name in cls.__dataclass_fields__}
        known = {names[key]: value for key, value in settings.items() if key in names}
        topics = {
            key.removeprefix(TOPIC_WEIGHT_PREFIX): value
            for key, value in settings.items()
            if key.startswith(TOPIC_WEIGHT_PREFIX)
        }
        return cls(**known, topic_weights=MappingProxyType(topics))


DEFAULT_LOAD_SETTINGS: Final = LoadSettings()
