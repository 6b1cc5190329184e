"""Tests how a broker finds out whether its transaction of unknown outcome happened."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest
from tests.support.metadata_brokers import UnreliableStore

from klamm.metadata.entries import writer_key
from klamm.metadata.memory_store import MemoryMetadata
from klamm.metadata.metadata_store import Change, Commit, OutcomeUnknown, Plan, Versioned
from klamm.metadata.plan_writer import PlanWriter

PLAN = Plan(None, [Change("topics/a", b"{}")])


class _LateStore(UnreliableStore):
    """A store whose first transaction happens after the second one. Its caller does not wait for it any more, and the
    outcome of the second one is unknown."""

    writer: PlanWriter

    async def transact(self, conditions: Mapping[str, int], changes: Sequence[Change]) -> int:
        """See `MetadataStore.transact`."""
        self.transactions += 1
        if self.transactions == 1:
            raise asyncio.CancelledError
        assert self.transactions == 2, "a transaction that happened is written again"
        for revision, number in ((10, b"2"), (11, b"1")):
            self.writer.observe(Commit(revision, {writer_key("run"): Versioned(number, 10, revision)}))
        raise OutcomeUnknown("the connection was lost")


def test_an_earlier_transaction_that_happens_later_hides_no_outcome() -> None:
    """A change whose caller was cancelled may still happen, after the next one of the same broker. The next one has
    happened too, and is not written again."""

    async def scenario() -> None:
        store = _LateStore(MemoryMetadata().connect())
        store.writer = PlanWriter(store, "run")
        with pytest.raises(asyncio.CancelledError):
            await store.writer.write(PLAN, {"topics/a": 0})
        await asyncio.wait_for(store.writer.write(PLAN, {"topics/a": 0}), 5)
        assert store.transactions == 2

    asyncio.run(scenario())
