from __future__ import annotations

from dataclasses import fields

import pytest

from klamm.config.key_support import KeySupport
from klamm.config.table import ConfigKey, topic_keys
from klamm.config.topic_config import TopicConfig
from klamm.config.validation import validate_topic_configs


def test_the_defaults_are_kafkas() -> None:
    """Each field has the default of its key in Apache Kafka."""
    for field in fields(TopicConfig):
        default = topic_keys()[field.name.replace("_", ".")].default_value()
        if isinstance(default, tuple):
            assert field.default == frozenset(default), field.name
        else:
            assert field.default == default, field.name


def test_every_honoured_key_has_a_field() -> None:
    """Each honoured key has a field; the internal key shares the field of the public key."""
    names = {field.name for field in fields(TopicConfig)}
    honoured = {name for name, key in topic_keys().items() if key.support is KeySupport.HONOURED}
    assert {name.replace(".", "_") for name in honoured} - names == {"internal_segment_bytes"}


def test_overrides_lie_over_the_defaults_of_the_broker() -> None:
    """Overrides replace the broker's defaults, other fields keep them, and keys without effect are ignored."""
    broker = TopicConfig(retention_ms=1000, segment_bytes=2_000_000)
    overrides = {"segment.bytes": "1048576", "cleanup.policy": "compact, delete", "remote.storage.enable": "false"}
    config = TopicConfig.from_mapping(overrides, broker)
    assert (config.retention_ms, config.segment_bytes) == (1000, 1_048_576)
    assert config.compact
    assert config.delete


def test_without_overrides_the_defaults_are_shared() -> None:
    """All topics without overrides share one configuration object."""
    broker = TopicConfig(retention_ms=1000)
    assert TopicConfig.from_mapping({}, broker) is broker


def test_the_internal_key_makes_segments_smaller_than_the_public_one_may() -> None:
    """internal.segment.bytes takes precedence over segment.bytes and allows smaller segments, as in Kafka."""
    overrides = {"internal.segment.bytes": "1000", "segment.bytes": "1048576"}
    assert TopicConfig.from_mapping(overrides).segment_bytes == 1000


def test_a_compacted_topic_rolls_in_time_for_its_compaction_lag() -> None:
    """A compacted topic rolls its active segment after max.compaction.lag.ms at the latest, because an active segment
    can't be compacted (KIP-354)."""
    overrides = {"max.compaction.lag.ms": "1000", "segment.ms": "5000"}
    assert TopicConfig.from_mapping(overrides).max_segment_ms == 5000
    assert TopicConfig.from_mapping({**overrides, "cleanup.policy": "compact"}).max_segment_ms == 1000


@pytest.mark.parametrize("key", [key for key in topic_keys().values() if key.default not in (None, "")])
def test_what_may_be_set_can_be_read(key: ConfigKey) -> None:
    """A value with control characters around it is valid and is read; Java trims them, but Python's strip does not
    trim all."""
    assert key.default is not None
    plain = TopicConfig.from_mapping({key.name: key.default})
    for code in range(33):
        text = f"{chr(code)}{key.default}{chr(code)}"
        validate_topic_configs({key.name: text})
        assert TopicConfig.from_mapping({key.name: text}) == plain
