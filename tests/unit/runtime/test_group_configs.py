"""Tests the coordinator's settings, which come from the broker's keys and from a group's own keys."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from klamm.config.broker_config import CONSUMER_ASSIGNORS, BrokerConfig
from klamm.config.table import group_keys
from klamm.core.group.assignors.built_in import BUILT_IN
from klamm.core.group.assignors.load_settings import DEFAULT_LOAD_SETTINGS, LoadSettings
from klamm.core.group.group_config import GroupConfig
from klamm.metadata.image import MetadataImage, ResourceType
from klamm.runtime.group_configs import (
    LOAD_PREFIX,
    PREVIOUS_OWNER,
    CurrentGroupConfigs,
    group_config,
    group_coordinator_config,
)
from klamm.runtime.linger import ADAPTIVE

CONFIG = BrokerConfig()
GROUP = "orders"


def image(overrides: dict[str, str]) -> MetadataImage:
    """Returns a cluster in which the group has these settings."""
    return MetadataImage(configs={(ResourceType.GROUP, GROUP): overrides})


def test_a_group_on_which_nothing_is_set_has_the_brokers_settings() -> None:
    """A group without settings has the broker's, which are Kafka's defaults on a broker without settings."""
    assert group_config(CONFIG, {}) == GroupConfig()
    config = replace(
        CONFIG,
        group_consumer_session_timeout_ms=50_000,
        group_consumer_heartbeat_interval_ms=6_000,
        group_consumer_assignment_interval_ms=0,
    )
    assert group_config(config, {}) == GroupConfig(
        session_timeout_ms=50_000, heartbeat_interval_ms=6_000, assignment_interval_ms=0
    )


def test_what_may_be_set_can_be_read() -> None:
    """Numbers are read as in Java, including control characters around them and the suffix of a double."""
    overrides = {
        "consumer.session.timeout.ms": "\x0146000\x1f",
        "klamm.consumer.assignor.previous.owner.ms": "\x009\x00",
        "klamm.consumer.assignor.load.some.share": " 0.25d\x02",
    }
    assert group_config(CONFIG, overrides) == GroupConfig(
        session_timeout_ms=46_000, previous_owner_ms=9, load={"some.share": 0.25}
    )


def test_what_is_set_on_the_group_goes_before() -> None:
    """A group's own settings override the broker's, and keys of other group protocols have no effect."""
    overrides = {
        "consumer.session.timeout.ms": "46000",
        "consumer.heartbeat.interval.ms": " 5001 ",
        "consumer.assignment.interval.ms": "7",
        "klamm.consumer.assignor.previous.owner.ms": "9",
        "klamm.consumer.assignor.load.some.share": "0.25",
        "share.session.timeout.ms": "47000",
    }
    assert group_config(CONFIG, overrides) == GroupConfig(
        session_timeout_ms=46_000,
        heartbeat_interval_ms=5_001,
        assignment_interval_ms=7,
        previous_owner_ms=9,
        load={"some.share": 0.25},
    )


def test_bounds_that_have_changed_since_cap_what_is_set(caplog: pytest.LogCaptureFixture) -> None:
    """A setting outside the broker's bounds is capped, as in Kafka's `GroupConfig.evaluate`, and a log line says so."""
    settings = group_config(
        CONFIG, {"consumer.session.timeout.ms": "1000", "consumer.assignment.interval.ms": "20000"}, GROUP
    )
    assert (settings.session_timeout_ms, settings.assignment_interval_ms) == (45_000, 15_000)
    assert "consumer.session.timeout.ms of group 'orders' is 1000 and taken for 45000" in caplog.text


def test_settings_follow_the_metadata_and_the_configuration() -> None:
    """A change of the metadata or the broker's configuration applies from the next lookup on, for every group."""
    group_config_of = CurrentGroupConfigs(CONFIG)
    assert group_config_of(GROUP) == GroupConfig()
    changed = image({"consumer.session.timeout.ms": "46000"})
    group_config_of.use(CONFIG, changed)
    assert group_config_of(GROUP).session_timeout_ms == 46_000
    assert group_config_of("others") == GroupConfig()
    group_config_of.use(replace(CONFIG, group_consumer_assignment_interval_ms=3), changed)
    assert group_config_of("others").assignment_interval_ms == 3
    assert group_config_of(GROUP) == GroupConfig(session_timeout_ms=46_000, assignment_interval_ms=3)
    group_config_of.use(CONFIG, MetadataImage())
    assert group_config_of(GROUP) == GroupConfig()


def test_defaults_are_those_of_the_table() -> None:
    """The defaults that DescribeConfigs shows for a group are the values that apply to a group without settings."""
    keys = group_keys()
    for each in fields(LoadSettings):
        if each.name != "topic_weights":
            key = keys[f"{LOAD_PREFIX}{each.name.replace('_', '.')}"]
            assert key.default_value() == getattr(DEFAULT_LOAD_SETTINGS, each.name), key.name
    assert keys[PREVIOUS_OWNER].default_value() == GroupConfig().previous_owner_ms


def test_every_assignor_that_may_be_named_is_there() -> None:
    """The assignors that a configuration may name are exactly the built-in assignors."""
    assert tuple(BUILT_IN) == CONSUMER_ASSIGNORS


def test_settings_are_worked_out_once() -> None:
    """Settings are computed once and cached, because every heartbeat needs them."""
    group_config_of = CurrentGroupConfigs(CONFIG, image({"consumer.session.timeout.ms": "46000"}))
    assert group_config_of(GROUP) is group_config_of(GROUP)
    assert group_config_of("one") is group_config_of("another")


@pytest.mark.parametrize(
    ("changes", "linger_ms"),
    [
        ({}, ADAPTIVE),
        ({"group_coordinator_append_linger_ms": 7}, 7),
        ({"klamm_offsets_commit_linger_ms": 0}, 0),
        ({"group_coordinator_append_linger_ms": 7, "klamm_offsets_commit_linger_ms": 3}, 3),
    ],
)
def test_commits_linger_as_kafkas_key_says_unless_klamms_own_does(changes: dict[str, int], linger_ms: int) -> None:
    """klamm's key for the linger of commits overrides Kafka's key, also with the value zero."""
    assert group_coordinator_config(replace(CONFIG, **changes)).offset_commit_linger_ms == linger_ms  # type: ignore[arg-type]


def test_ephemeral_groups_are_those_that_the_broker_names() -> None:
    """Groups that match an ephemeral pattern have their own retention; others have `offsets.retention.minutes`."""
    config = group_coordinator_config(
        replace(
            CONFIG,
            klamm_group_ephemeral_patterns=("tmp-*",),
            klamm_group_ephemeral_retention_ms=5,
            offsets_retention_minutes=2,
        )
    )
    assert [config.offsets_retention_of(group_id) for group_id in ("tmp-1", "orders")] == [5, 120_000]
