"""Tests cleanings of logs that are truncated, or deleted and created again, between two steps."""

from __future__ import annotations

import pytest
from tests.support.cleaner import clean, clean_steps, find_dirtiest, run_with
from tests.support.log_folder import NOW_MS, ORDERS, LogFolder, append, batch, read_all, sent

from klamm.protocol.types import Offset
from klamm.storage.cleaner.log_cleaner import run_here
from klamm.storage.log.log import Log


def _create(folder: LogFolder) -> Log:
    return folder.create(cleanup_policy=frozenset({"compact"}), segment_bytes=250, min_cleanable_dirty_ratio=0.0)


def _put(log: Log, key: str, value: str) -> None:
    append(log, batch(key=key.encode(), value=value.encode()))


def _fill(log: Log) -> None:
    for number in range(12):
        _put(log, f"k{number % 4}", f"v{number}")


def test_a_truncation_before_a_cleaning_begins_is_noticed(folder: LogFolder) -> None:
    """I3: a log that an unclean election truncates after it was chosen, and before its cleaning begins, is cleaned as
    it is then: records that are not committed remove no committed ones."""
    log = _create(folder)
    for key, value in (("key", "committed"), ("b", "committed"), ("key", "truncated"), ("c", "truncated")):
        if value == "truncated":
            log.roll(NOW_MS)
        _put(log, key, value)
    log.flush()
    cleaning = find_dirtiest(folder)
    assert cleaning is not None
    log.truncate_to(Offset(2), NOW_MS)
    log.following.append(sent(2, 1), NOW_MS)
    log.roll(NOW_MS)
    log.following.append(sent(3, 1), NOW_MS)
    run_here(folder.directory.cleaner.clean(cleaning, lambda: folder.now_ms))
    log.truncate_to(Offset(2), NOW_MS)
    assert [(record.offset, record.key, record.value) for record in read_all(log)] == [
        (0, b"key", b"committed"),
        (1, b"b", b"committed"),
    ]


@pytest.mark.parametrize("step", range(7))
def test_a_truncation_during_a_cleaning_lowers_the_first_dirty_offset(folder: LogFolder, step: int) -> None:
    """A cleaning that a truncation has overtaken does not store that it has cleaned beyond the cut: the next cleaning
    would not look at the records that follow there."""
    log = _create(folder)
    _fill(log)
    log.flush()
    steps = 0

    def truncate_once() -> None:
        nonlocal steps
        if steps == step:
            log.truncate_to(Offset(4), folder.now_ms)
        steps += 1

    run_with(clean_steps(folder), truncate_once)
    assert steps > step, "the cleaning has ended before"
    assert log.log_end_offset <= 4
    assert (folder.directory._cleaner_checkpoint.get(ORDERS) or 0) <= log.log_end_offset


def test_the_end_of_a_deleted_topics_cleaning_leaves_that_of_the_next_topic_alone(folder: LogFolder) -> None:
    """With several cleaner threads, a topic that is created again may be cleaned before the cleaning of the deleted one
    has ended. It can still be aborted, and ends without an error."""
    _fill(_create(folder))
    old = clean_steps(folder)
    next(old)()
    folder.directory.delete(ORDERS)
    _fill(_create(folder))
    new = clean_steps(folder)
    next(new)()
    assert run_here(old) is False
    folder.directory.cleaner.abort(ORDERS)
    assert run_here(new) is False
    assert clean(folder)
