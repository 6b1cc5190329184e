"""Formats the skew of a topic for a terminal: bars for partitions and keys, then sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from klamm.insight.topic.skew_rule import KeyShare, SkewCause, TopicSkew, key_shares
from klamm.insight.topic.skew_sample import TopicSample
from klamm.insight.topic.skew_words import findings, help_lines, key_text, percent, remarks, sample_line, size_words
from klamm.insight.words import count, partition_ranges

__all__ = ["skew_view"]

_BAR_CELLS: Final = 20
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"
_MOST_PARTITIONS: Final = 40
_SKEWED: Final = 1.5
_NOTABLE: Final = 0.01
"""From this share on, the heaviest key by bytes is shown in a table of its own."""


def skew_view(sample: TopicSample, skew: TopicSkew, most_keys: int) -> RenderableType:
    """Returns the picture."""
    parts: list[RenderableType] = [_head(sample), Text(sample_line(sample)), Text()]
    parts += [_partitions(sample, skew)]
    hidden = len(sample.partitions) - _MOST_PARTITIONS
    if hidden > 0:
        parts.append(Text(f"and {count(hidden, 'partition')} more, with less; --json has them all", style="dim"))
    by_records, by_bytes = key_shares(sample)
    if by_records:
        parts += [Text(), _keys(by_records[:most_keys], by_bytes, "RECORDS", "BYTES")]
    if by_bytes and by_bytes[0].key.key != by_records[0].key.key and by_bytes[0].share >= _NOTABLE:
        parts += [Text(), _keys(by_bytes[:most_keys], by_records, "BYTES", "RECORDS")]
    parts += [Text(), *_sentences(sample, skew)]
    return Group(*parts)


def _head(sample: TopicSample) -> Text:
    offsets = sum(each.offsets for each in sample.partitions)
    line = Text(f"topic {sample.topic}", style="bold")
    figures = [count(len(sample.partitions) + len(sample.unavailable), "partition"), count(offsets, "offset")]
    sizes = [each.size_bytes for each in sample.partitions if each.size_bytes is not None]
    if sizes:
        figures.append(f"{size_words(sum(sizes))} on disk")
    line.append(f"  {', '.join(figures)}", style="not bold")
    return line


def _partitions(sample: TopicSample, skew: TopicSkew) -> Table:
    """Returns a line for each partition: its part of the whole topic, and its part of the sample as a bar."""
    columns = ["PARTITION", "OFFSETS", "", "ON DISK", "", "SAMPLE", ""]
    table = _table(columns, bars={6})
    offsets = sum(each.offsets for each in sample.partitions)
    disk = sum(each.size_bytes or 0 for each in sample.partitions)
    largest = max(skew.shares.values(), default=0.0)
    shown = sample.partitions
    if len(shown) > _MOST_PARTITIONS:
        busiest = sorted(shown, key=lambda each: skew.shares[each.partition], reverse=True)[:_MOST_PARTITIONS]
        shown = sorted(busiest, key=lambda each: each.partition)
    for each in shown:
        share = skew.shares[each.partition]
        is_hot = skew.cause not in (SkewCause.NONE, SkewCause.UNKNOWN) and share >= _SKEWED * skew.fair_share
        table.add_row(
            str(each.partition),
            f"{each.offsets:,}",
            _part(each.offsets, offsets),
            size_words(each.size_bytes) if each.size_bytes is not None else "",
            _part(each.size_bytes, disk) if each.size_bytes is not None else "",
            percent(share),
            Text(_bar(share, largest), style="yellow" if is_hot else ""),
        )
    return table


def _keys(shares: list[KeyShare], others: list[KeyShare], by: str, also: str) -> Table:
    """Returns a line for each of the heaviest keys by one measure, with the other measure."""
    table = _table(["KEY", by, "", also, "PARTITIONS"], bars={2}, texts={0, 4})
    known = {each.key.key: each for each in others}
    largest = shares[0].share
    for each in shares:
        other = known.get(each.key.key)
        at_least = "≥ " if each.key.missed else ""
        table.add_row(
            Text(key_text(each.key.key), style="dim" if each.key.key is None else ""),
            f"{at_least}{percent(each.share)}",
            _bar(each.share, largest),
            percent(other.share) if other is not None else "",
            partition_ranges(each.partitions),
        )
    return table


def _table(columns: list[str], bars: set[int], texts: frozenset[int] | set[int] = frozenset()) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index in bars or index in texts else "right", overflow="fold")
    return table


def _sentences(sample: TopicSample, skew: TopicSkew) -> Iterator[RenderableType]:
    lines = Table.grid(padding=(0, 1))
    lines.add_column(width=3, justify="right", style="dim")
    lines.add_column(overflow="fold")
    for line in (*findings(skew), *help_lines(skew), *remarks(sample)):
        lines.add_row("·", line)
    yield lines


def _part(number: int, total: int) -> str:
    return percent(number / total) if total else ""


def _bar(share: float, largest: float) -> str:
    """Returns a bar, full for the largest share."""
    eighths = round(8 * _BAR_CELLS * share / largest) if largest else 0
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
