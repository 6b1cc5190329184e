"""Tests of handlers in processes, without a broker: deadlines, and values that do not decode."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.context import SpawnProcess
from pathlib import Path

import pytest
from tests.integration.worker import dying_handlers
from tests.integration.worker.slow_start_handlers import DEADLINE_SECONDS, app
from tests.support.running_worker import wait_until

from klamm.core.delivery.work import Received
from klamm.protocol.types import Offset, PartitionIndex, TopicPartition
from klamm.worker import Worker, WorkerError
from klamm.worker.dead_letters import dead_letter_headers
from klamm.worker.errors import ProcessFailure
from klamm.worker.handler_plan import HandlerPlan
from klamm.worker.handler_runs import HandlerRuns
from klamm.worker.process_handlers import HandlerProcess
from klamm.worker.record import Record
from klamm.worker.thread_handlers import ThreadHandlers
from klamm.worker.worker import new_clock


@contextmanager
def handling(
    topic: str,
    values: Sequence[bytes],
    app: Worker = app,
    *,
    processes: list[HandlerProcess] | None = None,
    failures: list[BaseException] | None = None,
) -> Iterator[tuple[HandlerRuns, dict[bytes, dict[str, bytes | None]]]]:
    """Handles records in a process. Yields the runs, and the headers of dead letters by value."""
    (plan,) = [each for each in app.handlers if topic in each.topics]
    headers: dict[bytes, dict[str, bytes | None]] = {}
    failures = [] if failures is None else failures

    def bury(
        plan: HandlerPlan, record: Record, error: BaseException, done: Callable[[BaseException | None], None]
    ) -> None:
        headers[record.value] = dict(dead_letter_headers(plan, "pool", record, error))
        done(None)

    runs = HandlerRuns(
        plan,
        clock_ms=new_clock(),
        to_record=replace,
        bury=bury,
        stop=failures.append,
    )
    process = HandlerProcess(plan)
    if processes is not None:
        processes.append(process)
    threads = ThreadHandlers(runs, [process])
    name = TopicPartition(topic, PartitionIndex(0))
    runs.delivery.assign(name, Offset(0))
    receive(runs, topic, values)
    try:
        yield runs, headers
    finally:
        process.close()
        threads.close(30)


def receive(runs: HandlerRuns, topic: str, values: Sequence[bytes], first: int = 0) -> None:
    """Gives records to a handler."""
    records = [Record(topic, 0, offset, b"%d" % offset, value) for offset, value in enumerate(values, first)]
    name = TopicPartition(topic, PartitionIndex(0))
    runs.receive(name, [Received(Offset(each.offset), each.key, 1, each) for each in records])
    runs.wake()


@pytest.mark.parametrize(("deaths", "starts"), [(3, 4), (100, 4)])
def test_a_process_that_dies_while_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deaths: int, starts: int
) -> None:
    """It is started again three times. Then the worker ends with advice, and no record is a dead letter for that."""
    file = tmp_path / "dying"
    file.write_text(f"{deaths} 0")
    monkeypatch.setenv("DYING_FILE", str(file))
    failures: list[BaseException] = []
    with handling("dying", [b"a", b"b"], dying_handlers.app, failures=failures) as (runs, headers):
        wait_until(lambda: failures or runs.succeeded + runs.dead == 2)
    assert (headers, runs.failed_attempts) == ({}, 0)
    assert file.read_text().split()[1] == str(starts)
    if deaths == 3:
        assert (runs.succeeded, failures) == (2, [])
    else:
        (failure,) = failures
        assert isinstance(failure, WorkerError)
        assert "exit code 7" in str(failure)
        assert "__main__" in str(failure)


def test_a_process_that_dies_between_two_records_costs_no_attempt() -> None:
    """Another process gets the record, which had one attempt only."""
    processes: list[HandlerProcess] = []
    with handling("tasks", [b"a"], processes=processes) as (runs, headers):
        wait_until(lambda: runs.succeeded == 1)
        process = processes[0]._process
        process.kill()
        process.join()
        receive(runs, "tasks", [b"b"], 1)
        wait_until(lambda: runs.succeeded + runs.dead == 2)
    assert (headers, runs.failed_attempts) == ({}, 0)


@pytest.fixture
def slow_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets processes start as slowly as their deadline."""
    monkeypatch.setenv("SLOW_START_SECONDS", str(DEADLINE_SECONDS))


@pytest.mark.usefixtures("slow_start")
def test_the_end_of_a_worker_does_not_wait_for_processes_that_start() -> None:
    """A process that is closed while it starts is not started again, and its handler is not called."""
    (plan,) = [each for each in app.handlers if "tasks" in each.topics]
    process = HandlerProcess(plan)
    waiting = threading.Thread(target=process.wait_until_ready)
    waiting.start()
    process.close()
    waiting.join(30)
    assert not waiting.is_alive()
    assert not process._process.is_alive()
    with pytest.raises(ProcessFailure):
        process(b"a", None)


@pytest.mark.parametrize("refusals", [1, 100])
def test_a_process_that_the_system_refuses(monkeypatch: pytest.MonkeyPatch, refusals: int) -> None:
    """Where no memory is left, a process dies and its successor can't be started at once. That costs no attempt."""
    processes: list[HandlerProcess] = []
    failures: list[BaseException] = []
    start = SpawnProcess.start
    left = refusals

    def refuse(process: SpawnProcess) -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            raise OSError(errno.ENOMEM, "Cannot allocate memory")
        start(process)

    with handling("tasks", [b"a"], processes=processes, failures=failures) as (runs, headers):
        wait_until(lambda: runs.succeeded == 1)
        process = processes[0]._process
        process.kill()
        process.join()
        monkeypatch.setattr(SpawnProcess, "start", refuse)
        receive(runs, "tasks", [b"b"], 1)
        wait_until(lambda: failures or runs.succeeded + runs.dead == 2)
    assert (headers, runs.failed_attempts) == ({}, 0)
    if refusals == 1:
        assert (runs.succeeded, failures) == (2, [])
    else:
        assert "ended before it was ready, 4 times in a row" in str(failures[0])


def test_a_program_ends_although_its_worker_runs(tmp_path: Path) -> None:
    """A worker in a daemon thread is not closed at the end of the program. Its processes end with the program."""
    script = tmp_path / "program.py"
    script.write_text(
        "from tests.integration.worker.slow_start_handlers import app\n"
        "from klamm.worker.process_handlers import HandlerProcess\n"
        "if __name__ == '__main__':\n"
        "    process = HandlerProcess(app.handlers[0])\n"
        "    process.wait_until_ready()\n"
        "    print(process._process.pid)\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)


@pytest.mark.usefixtures("slow_start")
def test_the_start_of_a_process_is_not_part_of_a_deadline() -> None:
    """The first record, and those behind a record whose process was killed, have the whole time of their deadline,
    although the process starts more slowly than that.
    """
    values = [b"first", b"hang", b"second", b"third"]
    with handling("tasks", values) as (runs, headers):
        wait_until(lambda: runs.succeeded + runs.dead == len(values))
    reasons = {value: of_letter["klamm.reason"] for value, of_letter in headers.items()}
    assert reasons == {b"hang": b"the deadline is over; the process was killed"}


def test_each_pool_of_a_function_has_its_own_decoder() -> None:
    """A function may handle two topics with different options."""
    for topic, reason in (("texts", b"TypeError: str"), ("numbers", b"TypeError: int")):
        with handling(topic, [b"1"]) as (runs, headers):
            wait_until(lambda runs=runs: runs.dead == 1)  # type: ignore[misc]
        assert headers[b"1"]["klamm.reason"] == reason


def test_values_that_do_not_decode_in_a_process_are_tried_once() -> None:
    """They become dead letters without further attempts, and the other records of the batch are handled together."""
    with handling("batches", [b"\xff", b"a", b"b"]) as (runs, headers):
        wait_until(lambda: runs.succeeded + runs.dead == 3)
    assert runs.succeeded == 2
    (of_letter,) = headers.values()
    assert (of_letter["klamm.reason"] or b"").startswith(b"the value does not decode: UnicodeDecodeError")
    assert of_letter["klamm.attempts"] == b"1"


def test_a_handler_that_waits_for_a_cancelled_task_does_not_end_its_process() -> None:
    """It is a failed attempt like any other."""
    with handling("cancelled", [b"a", b"b"]) as (runs, headers):
        wait_until(lambda: runs.dead == 2)
    assert {of_letter["klamm.reason"] for of_letter in headers.values()} == {b"CancelledError: "}


def test_what_a_function_in_a_process_returns_is_awaited() -> None:
    """Also if it is no coroutine of Python's own: without that, the record would count as handled."""
    with handling("awaitables", [b"a"]) as (runs, headers):
        wait_until(lambda: runs.succeeded + runs.dead == 1)
    assert {of_letter["klamm.reason"] for of_letter in headers.values()} == {b"ValueError: later"}
