"""Counts what a broker in this process opens of record batches on which of its threads, and can hold a thread up."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from klamm.protocol import compression, record_scanner

__all__ = ["LOOP", "BatchWork"]

LOOP = "klamm-broker"
"""The thread of the event loop, as `klamm.testing.Broker` names it."""


class BatchWork:
    """Bytes decompressed and records walked over, by the name of the thread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes: Counter[str] = Counter()
        self.records: Counter[str] = Counter()
        self._may_go_on = threading.Event()
        self._may_go_on.set()
        self.is_held = threading.Event()
        """Set when a thread other than the loop's is held up."""
        codecs = vars(compression)["_DECOMPRESS_INTO"]
        for codec, decompress_into in list(codecs.items()):
            monkeypatch.setitem(codecs, codec, self._counting_bytes(decompress_into))
        loops = vars(record_scanner)["_loops"]
        monkeypatch.setattr(loops, "find_records", self._counting_records(loops.find_records))

    def hold(self) -> None:
        """Has threads other than the loop's wait before they walk over records."""
        self._may_go_on.clear()

    def release(self) -> None:
        """Lets them go on."""
        self._may_go_on.set()

    def _counting_bytes(self, decompress_into: Callable[[Any, Any], int]) -> Callable[[Any, Any], int]:
        def count(data: Any, buffer: Any) -> int:
            try:
                size = decompress_into(data, buffer)
            except Exception:
                self.bytes[threading.current_thread().name] += len(buffer)
                raise
            self.bytes[threading.current_thread().name] += size
            return size

        return count

    def _counting_records(self, find_records: Callable[..., Any]) -> Callable[..., Any]:
        def count(body: Any, query: Any, position: int, index: int, *limits: int) -> Any:
            name = threading.current_thread().name
            if name != LOOP and not self._may_go_on.is_set():
                self.is_held.set()
                assert self._may_go_on.wait(60)
            answer = find_records(body, query, position, index, *limits)
            self.records[name] += answer[1] - index
            return answer

        return count
