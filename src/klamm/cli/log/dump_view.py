"""The output formats of `klamm log dump`: lines for people, or one JSON object a line."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, Final, Protocol

from klamm.cli.log.log_records import Meaning
from klamm.insight.words import count, moment
from klamm.protocol.compression import Compression
from klamm.protocol.record_batch import BatchHeader, CorruptRecord
from klamm.protocol.records import Record

__all__ = ["JsonView", "TextView", "View"]

_TIME_FIELDS: Final = frozenset({"timestamp", "last_timestamp"})


class View(Protocol):
    """An output format. Its methods are called in the order of the files' contents."""

    def file(self, path: Path, kind: str, size_bytes: int) -> None:
        """Shows the header of a file."""
        ...

    def row(self, row: dict[str, Any]) -> None:
        """Shows an entry of an index, a snapshot or a checkpoint."""
        ...

    def batch(self, position: int, header: BatchHeader) -> None:
        """Shows a batch."""
        ...

    def record(self, record: Record, meaning: Meaning | None) -> None:
        """Shows a record of the last batch. `meaning` is the decoded record; None if no decoder applies."""
        ...

    def complaint(self, text: str) -> None:
        """Shows that a part of the file can't be read."""
        ...


def _codec(header: BatchHeader) -> str:
    try:
        return Compression(header.compression).name.lower()
    except CorruptRecord:
        return "unknown codec"


class JsonView:
    """Prints one object a line; `type` is file, entry, batch, record or complaint."""

    def file(self, path: Path, kind: str, size_bytes: int) -> None:
        self._print("file", {"path": str(path), "kind": str(kind), "size_bytes": size_bytes})

    def row(self, row: dict[str, Any]) -> None:
        self._print("entry", row)

    def batch(self, position: int, header: BatchHeader) -> None:
        self._print(
            "batch",
            {
                "base_offset": header.base_offset,
                "last_offset": header.last_offset,
                "records": header.records_count,
                "position": position,
                "size_bytes": header.size_bytes,
                "compression": _codec(header),
                "leader_epoch": header.partition_leader_epoch,
                "producer_id": header.producer_id,
                "producer_epoch": header.producer_epoch,
                "base_sequence": header.base_sequence,
                "last_sequence": header.last_sequence,
                "timestamp_type": "LogAppendTime" if header.timestamp_type else "CreateTime",
                "base_timestamp": header.base_timestamp,
                "max_timestamp": header.max_timestamp,
                "is_transactional": header.is_transactional,
                "is_control": header.is_control,
                "has_delete_horizon": header.has_delete_horizon,
                "crc": header.crc,
            },
        )

    def record(self, record: Record, meaning: Meaning | None) -> None:
        shown: dict[str, Any] = {"offset": record.offset, "timestamp_ms": record.timestamp_ms}
        shown["headers"] = [[key, _plain_bytes(value)] for key, value in record.headers]
        if meaning is None:
            shown |= {"key": _plain_bytes(record.key), "value": _plain_bytes(record.value)}
        else:
            shown |= meaning._asdict()
        self._print("record", shown)

    def complaint(self, text: str) -> None:
        self._print("complaint", {"text": text})

    def _print(self, kind: str, content: dict[str, Any]) -> None:
        print(json.dumps({"type": kind, **content}))


class TextView:
    """Prints a line for each file, entry and batch, and the records indented below their batch."""

    def file(self, path: Path, kind: str, size_bytes: int) -> None:
        print(f"{path}: {kind}, {count(size_bytes, 'byte')}")

    def row(self, row: dict[str, Any]) -> None:
        if set(row) == {"line"}:
            print(f"  {row['line']}")
        else:
            print("  " + "  ".join(f"{_words(name)} {_entry_value(name, value)}" for name, value in row.items()))

    def batch(self, position: int, header: BatchHeader) -> None:
        parts = [
            f"  offsets {header.base_offset} to {header.last_offset}",
            count(header.records_count, "record"),
            f"position {position}",
            count(header.size_bytes, "byte"),
            _codec(header),
            f"leader epoch {header.partition_leader_epoch}",
            f"{'LogAppendTime' if header.timestamp_type else 'CreateTime'} {_time(header.max_timestamp)}",
        ]
        if header.has_producer_id:
            parts.append(f"producer {header.producer_id} epoch {header.producer_epoch}")
            if header.base_sequence >= 0:
                parts.append(f"sequences {header.base_sequence} to {header.last_sequence}")
        if header.is_transactional:
            parts.append("transactional")
        if header.is_control:
            parts.append("control")
        if header.has_delete_horizon:
            parts.append(f"tombstones may go from {_time(header.base_timestamp)} on")
        print("  ".join(parts))

    def record(self, record: Record, meaning: Meaning | None) -> None:
        parts = [f"    {record.offset}", _time(record.timestamp_ms)]
        if meaning is None or meaning.complaint is not None:
            parts += [f"key {_text(record.key)}", f"value {_text(record.value)}"]
        if meaning is not None:
            parts += _meaning(meaning, record)
        if record.headers:
            parts.append("headers " + ", ".join(f"{key}: {_text(value)}" for key, value in record.headers))
        print("  ".join(parts))

    def complaint(self, text: str) -> None:
        print(f"  ! {text}")


def _meaning(meaning: Meaning, record: Record) -> list[str]:
    if meaning.complaint is not None:
        return [f"! {meaning.complaint}"]
    parts = [str(meaning.name)]
    if meaning.key is not None:
        parts.append(json.dumps(meaning.key, ensure_ascii=False))
    if record.value is None:
        parts.append("tombstone")
    elif meaning.value is not None:
        version = f"version {meaning.version} " if meaning.version is not None else ""
        parts.append(version + json.dumps(meaning.value, ensure_ascii=False))
    return parts


def _plain_bytes(data: bytes | None) -> Any:
    """Returns UTF-8 as text, other bytes as an object with base64."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _text(data: bytes | None) -> str:
    """Returns the bytes quoted, with unprintable characters escaped: a terminal must get no control sequences."""
    if data is None:
        return "none"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return repr(data)
    return repr(text)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _entry_value(name: str, value: Any) -> str:
    return f"{value} ({_time(value)})" if name in _TIME_FIELDS and value >= 0 else str(value)


def _time(milliseconds: int) -> str:
    return moment(milliseconds, with_milliseconds=True) if milliseconds >= 0 else "no time"
