"""A task's record batches from a leader that temporarily refuses valid offsets."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.spark.source.tasks.test_partition_reader import CONFIG, FakeLog, batch, offsets_in, read

from klamm.client.errors import GaveUp


@pytest.mark.parametrize("fail", [True, False])
def test_an_offset_that_is_refused_and_there_is_asked_for_again(monkeypatch: pytest.MonkeyPatch, fail: bool) -> None:
    """A new leader may refuse an offset that it has; the reader retries until its timeout and loses no record."""
    log = FakeLog(monkeypatch, batch(0, 10))
    haste = replace(CONFIG, retry_backoff_ms=1, retry_backoff_max_ms=1)
    log.refusals = 3
    assert offsets_in(read(2, 10, fail=fail, config=haste)) == list(range(2, 10))

    log.refusals = 1_000_000
    impatient = replace(haste, default_api_timeout_ms=20)
    with pytest.raises(GaveUp, match=r"gave up to read t-0 .*OFFSET_OUT_OF_RANGE at offset 2, though the log has it"):
        read(2, 10, fail=fail, config=impatient)
