"""Settings of the assignor `load` in a group's configuration, `klamm.consumer.assignor.load.*`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

__all__ = ["DEFAULT_LOAD_SETTINGS", "TOPIC_WEIGHT_PREFIX", "LoadSettings"]

TOPIC_WEIGHT_PREFIX: Final = "topic.weight."


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSettings:
    """Settings of `load`. Each field's docstring names its key, without `klamm.consumer.assignor.load.`.

    No value may be negative, and `lag_drain_ms` may not be 0.
    """

    lag_drain_ms: float = 300_000
    """`lag.drain.ms`: the time in which a group should work off its lag. The shorter it is, the more the lag counts
    relative to the arrival rate."""
    partition_cost: float = 1
    """`partition.cost`: the cost of a partition without traffic, in records a second."""
    topic_weights: Mapping[str, float] = field(default_factory=dict)
    """`topic.weight.TOPIC`: the cost of a record of that topic relative to others; 1 unless it is set."""
    hysteresis_ratio: float = 0.2
    """`hysteresis.ratio`: how much two members' loads must differ before a partition moves, as a part of the lighter
    load, and how much the heaviest load must fall for a rebalance."""
    min_dwell_ms: float = 300_000
    """`min.dwell.ms`: the time after a rebalance before load alone may cause another one, and the time after a move
    before load alone may move the partition again."""
    target_lag: float = 0
    """`target.lag`: the lag of the whole group, in records, that "members needed" assumes as the goal within
    `lag.drain.ms`."""

    @classmethod
    def from_mapping(cls, settings: Mapping[str, float]) -> LoadSettings:
        """Reads the settings from `GroupSpec.settings`; ignores unknown names."""
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
