"""Tests of `app.test()`: what users test their handlers with, and with it the handlers' behaviour."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator

import pytest

from klamm.worker import Record, RecordFailed, Retry, Worker, WorkerError


def new_worker() -> Worker:
    return Worker("no-broker:9092", group="billing")


def test_records_are_handled_and_committed() -> None:
    """A coroutine, a plain function and a batch get their records; all of them are committed."""
    app = new_worker()
    seen: list[object] = []

    @app.handler("a", concurrency=4)
    async def one(record: Record) -> None:
        seen.append(record.value)

    @app.handler("b")
    def two(record: Record) -> None:
        seen.append(record.value)

    @app.handler("c", batch=10, within=0.5)
    async def three(records: list[Record]) -> None:
        seen.append([record.value for record in records])

    with app.test() as run:
        run.produce("a", b"1")
        run.produce("b", b"2")
        run.produce("c", b"3")
        run.produce("c", b"4")
        run.finish()
        assert run.committed("a") == 1
        assert run.committed("c") == 2
    assert b"1" in seen
    assert b"2" in seen
    assert [b"3", b"4"] in seen


def test_slow_handlers_take_simulated_time_only() -> None:
    """Handlers that sleep for ten minutes end at once; keys run at the same time, the records of a key one by one."""
    app = new_worker()
    ends: dict[str, float] = {}

    @app.handler("orders", concurrency=10)
    async def bill(record: Record) -> None:
        await asyncio.sleep(600)
        ends[f"{record.value.decode()}"] = asyncio.get_running_loop().time()

    with app.test() as run:
        for value, key in ((b"a1", b"a"), (b"a2", b"a"), (b"b1", b"b")):
            run.produce("orders", value, key)
        run.finish()
    assert ends["a1"] == pytest.approx(ends["b1"], abs=1)
    assert ends["a2"] == pytest.approx(ends["a1"] + 600, abs=1)


def test_an_end_that_takes_too_long_is_an_error() -> None:
    """`finish` waits as long as it was told, in simulated time."""
    app = new_worker()

    @app.handler("orders")
    async def bill(record: Record) -> None:
        await asyncio.sleep(100)

    with app.test() as run:
        run.produce("orders", b"1")
        with pytest.raises(WorkerError, match="after 50 seconds"):
            run.finish(within=50)
        assert run.now == pytest.approx(50)
        run.finish(within=60)
        assert run.committed("orders") == 1


def test_a_hot_key_holds_up_other_keys_only_when_the_window_is_full() -> None:
    """Half of the records of a partition have one key, which needs a second for each. The other keys go on until the
    window is full; after that, as many of them begin as records of the hot key end.
    """
    app = new_worker()
    counts = {"hot": 0, "other": 0}

    @app.handler("orders", concurrency=10, window=100)
    async def bill(record: Record) -> None:
        await asyncio.sleep(1 if record.key == b"hot" else 0.01)
        counts["hot" if record.key == b"hot" else "other"] += 1

    with app.test() as run:
        for number in range(1000):
            run.produce("orders", b"x", b"hot")
            run.produce("orders", b"x", b"%d" % number)
        run.advance(10.5)
        # One read returned 500 records, which is more than the window.
        assert counts == {"hot": 10, "other": 250}
        run.advance(100)
        assert counts == {"hot": 110, "other": 250}
        run.advance(100)
        assert counts["hot"] == 210
        assert 250 < counts["other"] <= 500
        run.finish()
        assert counts == {"hot": 1000, "other": 1000}


def test_a_failed_record_becomes_a_dead_letter_after_its_attempts() -> None:
    """The dead letter has the record, and headers with reason, origin and attempts. Other keys go on meanwhile."""
    app = new_worker()
    handled: list[bytes] = []

    @app.handler("orders", retries=Retry(3, first=60), dead_letters="orders-failed")
    async def bill(record: Record) -> None:
        if record.key == b"bad":
            raise ValueError("no such customer")
        handled.append(record.value)

    with app.test() as run:
        run.produce("orders", b"1", b"bad", headers=[("trace", b"t")])
        run.produce("orders", b"2", b"good")
        run.advance(1)
        assert handled == [b"2"]
        run.finish()
        (letter,) = run.dead_letters
    assert (letter.topic, letter.key, letter.value) == ("orders-failed", b"bad", b"1")
    assert dict(letter.headers) == {
        "trace": b"t",
        "klamm.reason": b"ValueError: no such customer",
        "klamm.topic": b"orders",
        "klamm.partition": b"0",
        "klamm.offset": b"0",
        "klamm.timestamp": b"0",
        "klamm.handler": b"bill",
        "klamm.group": b"billing",
        "klamm.attempts": b"3",
    }


def test_without_dead_letters_the_worker_ends() -> None:
    """The error names the record and says what to do; the record is not committed."""
    app = new_worker()

    @app.handler("orders", retries=Retry(1))
    async def bill(record: Record) -> None:
        raise ValueError("no")

    with app.test() as run:
        run.produce("orders", b"1")
        with pytest.raises(RecordFailed, match=r"offset 0 of orders-0.*dead_letters=TOPIC"):
            run.finish()
        assert run.committed("orders") in (None, 0)


@pytest.mark.parametrize("batch", [1, 3])
def test_a_record_that_does_not_decode_becomes_a_dead_letter_at_once(batch: int) -> None:
    """The other records of its batch are handled with their decoded values."""
    app = new_worker()
    values: list[object] = []

    @app.handler("orders", decode=json.loads, dead_letters="orders-failed", batch=batch)
    async def bill(argument: Record | list[Record]) -> None:
        values.extend(each.value for each in (argument if isinstance(argument, list) else [argument]))

    with app.test() as run:
        for value in (b'{"a": 1}', b"{", b"[2]"):
            run.produce("orders", value)
        run.finish()
        (letter,) = run.dead_letters
    assert sorted(map(str, values)) == ["[2]", "{'a': 1}"]
    assert letter.value == b"{"
    assert dict(letter.headers)["klamm.attempts"] == b"1"
    assert (dict(letter.headers)["klamm.reason"] or b"").startswith(b"the value does not decode: JSONDecodeError")


def test_a_crash_repeats_only_what_was_not_committed() -> None:
    """Records that were finished beyond the committed offset are not handled again."""
    app = new_worker()
    calls: list[bytes] = []

    @app.handler("orders", concurrency=10)
    async def bill(record: Record) -> None:
        calls.append(record.value)
        if record.key == b"slow":
            await asyncio.sleep(100)

    with app.test() as run:
        run.produce("orders", b"slow", b"slow")
        for number in range(20):
            run.produce("orders", b"%d" % number, b"%d" % number)
        run.advance(10)
        assert run.committed("orders") == 0
        run.crash()
        run.finish()
        assert run.committed("orders") == 21
    assert calls.count(b"slow") == 2
    assert len(calls) == 22


def test_a_rebalance_waits_for_what_runs() -> None:
    """No record runs twice if its handler ends within the drain time."""
    app = new_worker()
    calls: list[bytes] = []

    @app.handler("orders", concurrency=3)
    async def bill(record: Record) -> None:
        await asyncio.sleep(5)
        calls.append(record.value)

    with app.test(partitions=2) as run:
        for number in range(6):
            run.produce("orders", b"%d" % number, b"%d" % number)
        run.advance(2)
        run.rebalance()
        run.finish()
    assert len(calls) == 6


def test_a_lost_partition_cancels_coroutines() -> None:
    """The coroutine of a lost partition is cancelled, and the record is handled by the next owner."""
    app = new_worker()
    events: list[str] = []

    @app.handler("orders")
    async def bill(record: Record) -> None:
        events.append("begins")
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            events.append("is cancelled")
            raise
        events.append("ends")

    with app.test() as run:
        run.produce("orders", b"1")
        run.advance(1)
        run.lose()
        run.finish()
    assert events == ["begins", "is cancelled", "begins", "ends"]


def test_a_deadline_ends_an_attempt() -> None:
    """A coroutine that takes longer than the deadline is cancelled, and its record becomes a dead letter."""
    app = new_worker()

    @app.handler("orders", retries=Retry(5, deadline=2), dead_letters="orders-failed")
    async def bill(record: Record) -> None:
        await asyncio.sleep(60)

    with app.test() as run:
        run.produce("orders", b"1")
        run.finish(within=10)
        assert (dict(run.dead_letters[0].headers)["klamm.reason"] or b"").startswith(b"TimeoutError")


def test_a_record_whose_deadline_is_over_before_its_next_attempt_is_not_called() -> None:
    """No slot was free in time. The dead letter says how the last attempt failed, and how many there were."""
    app = new_worker()
    calls: list[bytes] = []

    @app.handler("orders", retries=Retry(9, first=0.5, deadline=5), dead_letters="orders-failed")
    async def bill(record: Record) -> None:
        calls.append(record.value)
        if record.value == b"bad":
            await asyncio.sleep(0.5)
            raise ValueError("no stock")
        await asyncio.sleep(4.9)

    with app.test() as run:
        run.produce("orders", b"bad", b"a")
        run.produce("orders", b"slow", b"b")
        run.finish()
        (letter,) = run.dead_letters
        headers = dict(letter.headers)
    assert calls == [b"bad", b"slow"]
    assert headers["klamm.reason"] == b"ValueError: no stock"
    assert headers["klamm.attempts"] == b"1"


def test_a_record_that_hangs_does_not_make_its_batch_dead_letters() -> None:
    """After a batch has exceeded the deadline, each of its records is tried alone, with a deadline of its own."""
    app = new_worker()
    calls: list[list[int]] = []

    @app.handler("orders", batch=5, retries=Retry(5, deadline=2), dead_letters="orders-failed")
    async def bill(records: list[Record]) -> None:
        calls.append([record.offset for record in records])
        await asyncio.sleep(1)
        if any(record.value == b"hang" for record in records):
            await asyncio.sleep(60)

    with app.test() as run:
        for value in (b"0", b"1", b"hang", b"3", b"4"):
            run.produce("orders", value, key=value)
        run.finish(within=30)
        assert [letter.value for letter in run.dead_letters] == [b"hang"]
    assert calls[0] == [0, 1, 2, 3, 4]
    assert sorted(calls[1:]) == [[0], [1], [2], [3], [4]]


def test_each_retry_begins_at_its_time() -> None:
    """A long second attempt of one record does not delay the second attempt of another one."""
    app = new_worker()
    begins: dict[tuple[bytes, int], float] = {}

    @app.handler("orders", concurrency=10, retries=Retry(2, first=1))
    async def bill(record: Record) -> None:
        begins[record.value, record.attempt] = asyncio.get_running_loop().time()
        if record.attempt == 1:
            await asyncio.sleep(0.5 if record.value == b"later" else 0)
            raise ValueError("the first attempt fails")
        await asyncio.sleep(100)

    with app.test() as run:
        run.produce("orders", b"first", b"a")
        run.produce("orders", b"later", b"b")
        run.finish()
    assert begins[b"later", 2] - begins[b"first", 2] == pytest.approx(0.5, abs=0.1)


class Panic(BaseException):
    """An error of a library that is not written in Python."""


@pytest.mark.parametrize("error", [asyncio.CancelledError, SystemExit, Panic])
def test_any_error_of_a_handler_is_a_failed_attempt(error: type[BaseException]) -> None:
    """A handler that waits for a cancelled task, or that calls `sys.exit`, does not stop other records."""
    app = new_worker()

    @app.handler("orders", retries=Retry(2), dead_letters="orders-failed")
    async def bill(record: Record) -> None:
        if record.value == b"bad":
            raise error

    with app.test() as run:
        run.produce("orders", b"bad")
        run.produce("orders", b"good")
        run.finish()
        assert [letter.value for letter in run.dead_letters] == [b"bad"]


def test_a_task_of_a_handler_that_quits_is_a_failed_attempt() -> None:
    """The loop goes on after `sys.exit` in a task that the handler waits for, as in a real run."""
    app = new_worker()

    async def quit_once(record: Record) -> None:
        if record.attempt == 1:
            sys.exit(3)

    @app.handler("orders", retries=Retry(2))
    async def bill(record: Record) -> None:
        await asyncio.wait_for(quit_once(record), 5)

    with app.test() as run:
        run.produce("orders", b"1")
        run.finish(within=10)
        assert run.committed("orders") == 1


def test_a_coroutine_that_cancels_its_own_task_stops_nothing() -> None:
    """The cancellation would arrive after the end of the coroutine. It meets no other record and ends no slot."""
    app = new_worker()
    handled: list[bytes] = []

    @app.handler("orders", retries=Retry(1), dead_letters="orders-failed")
    async def bill(record: Record) -> None:
        if record.value == b"good":
            await asyncio.sleep(1)
        handled.append(record.value)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    with app.test() as run:
        for value in (b"first", b"good", b"last"):
            run.produce("orders", value)
        run.finish(within=10)
        run.produce("orders", b"later")
        run.finish(within=10)
        assert run.dead_letters == []
    assert handled == [b"first", b"good", b"last", b"later"]


def test_slots_that_wait_for_records_are_not_cancelled() -> None:
    """A handler that cancels all tasks of the loop, as programs do at their end, does not lower the concurrency."""
    app = new_worker()
    running: set[bytes] = set()
    most = 0

    @app.handler("orders", concurrency=3)
    async def bill(record: Record) -> None:
        nonlocal most
        if record.value == b"bad" and record.attempt == 1:
            for task in asyncio.all_tasks():
                if getattr(task.get_coro(), "__name__", "") == "_slot":
                    task.cancel()
            await asyncio.sleep(1)
        running.add(record.value)
        most = max(most, len(running))
        await asyncio.sleep(1)
        running.remove(record.value)

    with app.test() as run:
        run.produce("orders", b"bad")
        run.finish(within=10)
        for value in (b"1", b"2", b"3"):
            run.produce("orders", value, value)
        run.finish(within=10)
    assert most == 3


def test_a_coroutine_may_refuse_to_be_cancelled() -> None:
    """A coroutine that goes on after its partition was lost ends without an effect; its slot works on."""
    app = new_worker()
    ends: list[bytes] = []

    @app.handler("orders", retries=Retry(1, deadline=60))
    async def bill(record: Record) -> None:
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            await asyncio.sleep(5)
        ends.append(record.value)

    with app.test() as run:
        run.produce("orders", b"1")
        run.advance(1)
        run.lose()
        run.finish()
        run.produce("orders", b"2")
        run.advance(1)
        run.crash()
        run.finish()
    assert ends == [b"1", b"1", b"2", b"2"]


def test_a_key_waits_for_a_coroutine_that_refuses_to_be_cancelled() -> None:
    """The partition comes back while a record of its former ownership goes on: its key waits, another key does not."""
    app = new_worker()
    running: list[bytes] = []
    begins: list[tuple[bytes, float]] = []

    @app.handler("orders", concurrency=2, retries=Retry(1))
    async def bill(record: Record) -> None:
        assert record.key not in running, "two records of a key run at once"
        running.append(record.key or b"")
        begins.append((record.value, asyncio.get_running_loop().time()))
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            await asyncio.sleep(5)
        running.remove(record.key or b"")

    with app.test() as run:
        run.produce("orders", b"a1", b"a")
        run.produce("orders", b"a2", b"a")
        run.advance(1)
        run.produce("orders", b"b1", b"b")
        run.lose()
        run.finish()
    assert [value for value, _ in begins] == [b"a1", b"b1", b"a1", b"a2"]
    assert begins[1][1] == pytest.approx(1, abs=0.2)
    assert begins[2][1] == pytest.approx(6, abs=0.2)


def test_wrong_declarations_are_refused() -> None:
    """A topic has one handler, a worker has at least one, and dead letters go to another topic."""
    app = new_worker()
    with pytest.raises(WorkerError, match="has no handler"):
        app.test()
    app.handler("orders")(print)
    for options, what in (
        ({}, "orders: a topic has one handler"),
        ({"order": "time"}, "choose 'key', 'partition' or 'none'"),
        ({"concurrency": 0}, "at least 1"),
        ({"window": 0}, "at least 1"),
        ({"window_bytes": 0}, "at least 1"),
        ({"dead_letters": "orders"}, "which it reads"),
        ({"pool": 1}, "not at the top of its module"),
    ):
        with pytest.raises(WorkerError, match=what):
            app.handler("orders", **options)(lambda record: None)

    def first(record: Record) -> Iterator[Record]:
        yield record

    async def second(record: Record) -> AsyncIterator[Record]:
        yield record

    for function in (first, second):
        with pytest.raises(WorkerError, match="has yield, so a call of it handles nothing"):
            app.handler("invoices")(function)
    with pytest.raises(WorkerError, match="name the topics"):
        app.handler()(print)
    with pytest.raises(WorkerError, match="not by pattern"):
        app.handler("^orders-.*")(print)
    with pytest.raises(WorkerError, match="the group waits for a member for 10 seconds"):
        Worker("no-broker:9092", group="billing", settings={"max.poll.interval.ms": 10_000})
