"""Counts, by thread, how much of record batches a broker in this process opens, and can block a thread."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from klamm.protocol import compression, record_scanner

__all__ = ["LOOP", "BatchWork"]

LOOP = "klamm-broker"
"""The name that `klamm.testing.Broker` gives to the thread of the event loop."""


class BatchWork:
    """Numbers of decompressed bytes and scanned records, by thread name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes: Counter[str] = Counter()
        self.records: Counter[str] = Counter()
        self._may_go_on = threading.Event()
        self._may_go_on.set()
        self.is_held = threading.Event()
        """An event that is set when a thread other than the loop's is blocked."""
        codecs = vars(compression)["_DECOMPRESS_INTO"]
        for codec, decompress_into in list(codecs.items()):
            monkeypatch.setitem(codecs, codec, self._counting_bytes(decompress_into))
        loops = vars(record_scanner)["_loops"]
        monkeypatch.setattr(loops, "find_records", self._counting_records(loops.find_records))

    def hold(self) -> None:
        """Blocks threads other than the loop's before they scan records, until `release`."""
        self._may_go_on.clear()

    def release(self) -> None:
        """Lets the blocked threads continue."""
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
