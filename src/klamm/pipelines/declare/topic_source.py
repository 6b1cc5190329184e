"""`topic(…)`: what a flow reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, get_args

from klamm.pipelines.declare.declared_start import GroupOfStart, StartingPoint, parse_start
from klamm.pipelines.declare.option_texts import OptionValue, names_of, option_texts
from klamm.pipelines.decoders.decoder import Decoder, Tombstones
from klamm.pipelines.decoders.raw import raw
from klamm.pipelines.errors import DeclarationError

__all__ = ["TopicSource", "topic"]

_CLUSTER: Final = "the command and its context name the cluster"
_START: Final = "use topic(…, start=…)"
_RESERVED: Final = {
    "assign": "use topic(name)",
    "includeheaders": "use topic(…, headers=True)",
    "kafka.bootstrap.servers": _CLUSTER,
    "kafka.group.id": "the names of the pipeline and the flow name the group",
    "klamm.follow.checkpointlocation": "dead letters follow their flow by it",
    "klamm.group.checkpointlocation": "a flow and its dead letters have checkpoints of their own",
    "klamm.group.reset": "with start='committed', a partition without a commit starts at its start",
    "klamm.stop.file": "`klamm pipeline stop` uses it",
    "maxoffsetspertrigger": "use topic(…, max_records_per_batch=…)",
    "startingoffsets": _START,
    "startingoffsetsbytimestamp": _START,
    "startingtimestamp": _START,
    "startingoffsetsbytimestampstrategy": _START,
    "subscribe": "use topic(name)",
    "subscribepattern": "use topic(pattern=…)",
}


@dataclass(frozen=True, slots=True)
class TopicSource:
    """The topics that a flow reads, and how. Created by `topic`."""

    topics: tuple[str, ...]
    """Empty if there is a pattern."""
    pattern: str | None
    decode: Decoder
    start: StartingPoint
    tombstones: Tombstones
    headers: bool
    max_records_per_batch: int | None
    options: Mapping[str, str]
    """Further options of `format("klamm")`."""

    def __str__(self) -> str:
        return f"pattern {self.pattern}" if self.pattern is not None else ", ".join(self.topics)


def topic(
    name: str | Sequence[str] | None = None,
    *,
    pattern: str | None = None,
    decode: Decoder | None = None,
    start: str | datetime | GroupOfStart = "earliest",
    tombstones: str = "bad",
    headers: bool = False,
    max_records_per_batch: int | None = None,
    options: Mapping[str, OptionValue] | None = None,
) -> TopicSource:
    """Returns the source of a flow: one topic, a list of topics, or the topics whose names match a regular expression.

    `decode` turns the records into typed columns; without it the only column is `value`, as bytes. `start` counts
    only for a flow without a checkpoint. `tombstones` says what a record without a value is: bad, dropped without a
    trace, or kept as a row whose columns are null. With `headers` the column `_record` has the record's headers.
    `max_records_per_batch` limits a micro-batch. `options` are further options of `format("klamm")`.
    Raises `DeclarationError`.
    """
    if (name is None) == (pattern is None):
        raise DeclarationError("topic() takes a name, a list of names, or pattern=…, and only one of them")
    place = f"topic({pattern if name is None else name!r})"
    if pattern is not None and (not isinstance(pattern, str) or not pattern.strip()):
        raise DeclarationError(f"{place}: pattern is a regular expression such as 'flights-.*', not {pattern!r}")
    if not isinstance(headers, bool):
        raise DeclarationError(f"{place}: headers={headers!r}: it is True or False")
    if decode is not None and not isinstance(decode, Decoder):
        raise DeclarationError(f"{place}: decode is a decoder such as json('id long, name string'), not {decode!r}")
    if tombstones not in get_args(Tombstones):
        raise DeclarationError(f"{place}: tombstones={tombstones!r}: it is 'bad', 'drop' or 'keep'")
    if max_records_per_batch is not None and (
        isinstance(max_records_per_batch, bool)
        or not isinstance(max_records_per_batch, int)
        or max_records_per_batch < 1
    ):
        raise DeclarationError(f"{place}: max_records_per_batch={max_records_per_batch!r}: it is a number from 1 on")
    return TopicSource(
        topics=() if name is None else names_of("topic()", name),
        pattern=pattern,
        decode=raw() if decode is None else decode,
        start=parse_start(start),
        tombstones=tombstones,  # type: ignore[arg-type]
        headers=headers,
        max_records_per_batch=max_records_per_batch,
        options=option_texts(place, options, _RESERVED),
    )
