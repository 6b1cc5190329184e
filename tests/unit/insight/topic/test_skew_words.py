"""Tests the words of a topic's sample."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.insight.samples import sample

from klamm.insight.topic.frequent_keys import record_key
from klamm.insight.topic.skew_words import key_text, percent, remarks, sample_line, size_words


def test_keys_are_readable() -> None:
    """Text is shown as text, other bytes in hexadecimal, long keys by their beginning, null as such."""
    assert key_text(None) == "no key"
    assert key_text(b"customer-17") == '"customer-17"'
    assert key_text(b"") == '""'
    assert key_text("Zürich".encode()) == '"Zürich"'
    assert key_text(b"\x00\xff") == "0x00ff"
    assert key_text(b"line\nend") == "0x6c696e650a656e64"
    assert key_text(bytes(20)) == f"0x{'00' * 16}… (20 bytes)"
    assert key_text(b"x" * 100) == f'"{"x" * 40}…" (100 bytes)'
    assert key_text(record_key("ü".encode() * 1_000)) == f'"{"ü" * 32}…" (2,000 bytes)'


def test_shares_and_sizes_are_short() -> None:
    """Shares below one percent keep two digits; sizes are in powers of 1000."""
    assert [percent(share) for share in (0.0, 0.5, 0.123, 0.0004)] == ["0.0 %", "50.0 %", "12.3 %", "0.04 %"]
    assert [size_words(size) for size in (0, 812, 52_100, 3_400_000_000)] == ["0 B", "812 B", "52.1 kB", "3.4 GB"]


def test_the_sample_is_told() -> None:
    """The line says which records were read, and whether all keys were counted."""
    of = sample({b"a": {0: 5}})
    assert sample_line(of) == "sample: all 5 records (50 B, 1 key)"
    assert sample_line(sample({})) == "sample: no records"
    assert sample_line(replace(of, are_keys_exact=False)).endswith("(50 B, at least 1 key)")
    newest = sample_line(replace(of, is_whole=False, since_ms=1_767_182_400_123))
    assert newest.startswith("sample: the newest 5 records, since ")
    assert ".123" in newest
    assert "newest part of each partition" in sample_line(replace(of, is_whole=False))


def test_what_limits_the_figures_is_told() -> None:
    """Bounds, offsets without records, open transactions and missing leaders are named."""
    of = sample({b"a": {0: 90, 1: 100}}, range(2))
    assert list(remarks(of)) == []
    first, second = of.partitions
    gaps = replace(of, partitions=(replace(first, end=100, position=100, target=100), second))
    assert [line.partition(" of the offsets")[0] for line in remarks(gaps)] == ["5.0 %"]
    hidden = replace(of, partitions=(replace(first, end=97), second), unavailable=(2, 3, 4))
    assert list(remarks(hidden)) == [
        "an open transaction hides the newest 7 offsets of partition 0",
        "partitions 2-4 can't be read now, because there is no leader",
    ]
    cut = replace(of, partitions=(replace(first, position=0), second), cut_by="time")
    assert next(remarks(cut)) == (
        "the sample ended because its time was over: the shares are scaled up from what was read; nothing was read of "
        "partition 0"
    )
