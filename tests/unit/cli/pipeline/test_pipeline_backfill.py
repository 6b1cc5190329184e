"""Tests the borders of `klamm pipeline backfill`."""

from __future__ import annotations

import pytest

from klamm.cli.errors import UsageError
from klamm.cli.pipeline.pipeline_backfill import border
from klamm.pipelines.run.backfill.backfill_range import EARLIEST, LATEST, Border
from klamm.protocol.types import Millis, Offset, PartitionIndex, TopicPartition


def test_borders() -> None:
    """A border is a word, an offset, the last N, offsets by partition, a time, or a duration before now."""
    assert border("--from", "earliest") == EARLIEST
    assert border("--to", "latest") == LATEST
    assert border("--from", "12") == Border(offset=Offset(12))
    assert border("--from", "-3") == Border(offset=Offset(-3))
    partition = TopicPartition("flights", PartitionIndex(1))
    assert border("--from", '{"flights": {"1": -2}}') == Border(offsets={partition: Offset(-2)})
    assert border("--from", "1970-01-01T00:01:00+00:00") == Border(timestamp_ms=Millis(60_000))
    earlier, later = border("--from", "2h").timestamp_ms, border("--from", "1h").timestamp_ms
    assert earlier is not None
    assert later is not None
    assert later - earlier >= 3_600_000


@pytest.mark.parametrize("text", ["yesterday", "", "{", '{"flights": {"x": 1}}', '{"flights": {"0": -3}}'])
def test_wrong_borders(text: str) -> None:
    """A border that is none of these is a wrong use, which names the option."""
    with pytest.raises(UsageError, match="--to"):
        border("--to", text)
