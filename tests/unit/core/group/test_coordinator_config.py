"""Tests of the retention time of offsets, and of the interval of expiration checks."""

from __future__ import annotations

import pytest

from klamm.core.group.coordinator_config import GroupCoordinatorConfig

HOUR = 3_600_000


@pytest.mark.parametrize(
    ("group_id", "is_ephemeral"),
    [
        ("console-consumer-12", True),
        ("console-consumer-", True),
        ("my-console-consumer-12", False),
        ("Console-consumer-12", False),
        ("tmp.1", True),
        ("tmpx1", False),
        ("tmp.12", False),
        ("", False),
    ],
)
def test_ephemeral_groups_are_known_by_their_ids(group_id: str, is_ephemeral: bool) -> None:
    """A pattern for ephemeral groups has to match the whole group id, with the same letter case."""
    config = GroupCoordinatorConfig(ephemeral_patterns=("console-consumer-*", "tmp.?"), ephemeral_retention_ms=HOUR)
    assert config.offsets_retention_of(group_id) == (HOUR if is_ephemeral else config.offsets_retention_ms)


def test_without_patterns_no_group_is_ephemeral() -> None:
    """Without patterns no group is ephemeral, as in Kafka."""
    config = GroupCoordinatorConfig(ephemeral_retention_ms=1)
    assert config.offsets_retention_of("console-consumer-12") == 7 * 24 * HOUR
    assert config.expiry_interval_ms == 600_000


@pytest.mark.parametrize(("retention_ms", "interval_ms"), [(1, 1000), (60_000, 60_000), (24 * HOUR, 600_000)])
def test_groups_that_go_soon_are_looked_at_often(retention_ms: int, interval_ms: int) -> None:
    """The check interval is the ephemeral retention time, at least one second and at most ten minutes."""
    config = GroupCoordinatorConfig(ephemeral_patterns=("*",), ephemeral_retention_ms=retention_ms)
    assert config.expiry_interval_ms == interval_ms
