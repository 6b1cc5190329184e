"""Tests how long a replica does not fetch after failed writes."""

from __future__ import annotations

from klamm.core.replication.write_pause import WritePause

_FIRST_MS = 1_000.0
_LONG_MS = 120_000.0


def _pauses(*, after_ms: float, grows: bool = True) -> list[float]:
    """Returns the lengths of eight pauses; the write after each of them fails `after_ms` later."""
    pause, now_ms, lengths = WritePause(), 0.0, []
    for _ in range(8):
        pause.begin(now_ms, _FIRST_MS, grows=grows)
        lengths.append(pause.until_ms - now_ms)
        now_ms = pause.until_ms + after_ms
    return lengths


def test_pauses_become_longer() -> None:
    """Each pause is twice as long as the one before, up to ten seconds, although the replica copied records between
    the failures."""
    expected = [1_000, 2_000, 4_000, 8_000, 10_000, 10_000, 10_000, 10_000]
    assert _pauses(after_ms=0) == expected
    assert _pauses(after_ms=_LONG_MS - 1) == expected


def test_failures_are_forgotten() -> None:
    """A failure two minutes after the last pause begins with a short pause again."""
    assert _pauses(after_ms=_LONG_MS) == [_FIRST_MS] * 8


def test_failures_during_a_pause_count_once() -> None:
    """A leader refuses many batches until another replica leads: that is one failure."""
    pause = WritePause()
    for now_ms in range(0, 1_000, 10):
        pause.begin(now_ms, _FIRST_MS)
    assert pause.until_ms == _FIRST_MS
    pause.begin(_FIRST_MS, _FIRST_MS)
    assert pause.until_ms == 3 * _FIRST_MS


def test_pauses_that_do_not_grow() -> None:
    """A replica that could not leave the in-sync replicas tries again soon, because acknowledgements wait for it."""
    assert _pauses(after_ms=0, grows=False) == [_FIRST_MS] * 8


def test_a_long_first_pause() -> None:
    """The first pause may be longer than ten seconds, and no pause is shorter than the first one."""
    pause = WritePause()
    pause.begin(0, 40_000)
    pause.begin(40_000, 40_000)
    assert pause.until_ms == 80_000


def test_no_first_pause() -> None:
    """Without a first pause (`replica.fetch.backoff.ms=0`) pauses become longer too."""
    pause, now_ms = WritePause(), 0.0
    for _ in range(20):
        pause.begin(now_ms, 0)
        length_ms, now_ms = pause.until_ms - now_ms, pause.until_ms
    assert length_ms == 10_000
