"""Tests of the figures of a worker, and of how they are shown."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from klamm.core.delivery.work import Received
from klamm.protocol.types import Offset, PartitionIndex, TopicPartition
from klamm.worker import Worker, WorkerError
from klamm.worker.handler_progress import HandlerProgress, ProgressLine, measure_progress
from klamm.worker.handler_runs import HandlerRuns
from klamm.worker.record import Record
from klamm.worker.worker_metrics import WorkerMetrics

ORDERS = TopicPartition("orders", PartitionIndex(0))


def new_runs() -> tuple[HandlerRuns, list[float]]:
    """Returns the runs of a handler that has three records in flight, and its clock."""
    now_ms = [1000.0]
    app = Worker("no-broker:9092", group="billing")

    @app.handler("orders", concurrency=2)
    async def bill(record: Record) -> None: ...

    runs = HandlerRuns(app.handlers[0], clock_ms=lambda: now_ms[0], to_record=replace, bury=None, stop=print)
    runs.delivery.assign(ORDERS, Offset(0))
    records = [Record("orders", 0, offset, key, b"x") for offset, key in enumerate((b"a", b"a", b"b"))]
    runs.receive(ORDERS, [Received(Offset(each.offset), each.key, 10, each) for each in records])
    return runs, now_ms


def test_figures_of_a_handler() -> None:
    """Records in flight are received and not finished; the oldest one holds the commit up."""
    runs, now_ms = new_runs()
    first = runs.next_run()
    assert first is not None
    second = runs.next_run()
    assert second is not None
    assert runs.next_run(second[0]) is None
    runs.fail(first[0], ValueError("x"))
    now_ms[0] += 2500
    assert measure_progress([runs]) == (
        HandlerProgress(
            handler="bill",
            topics=("orders",),
            handled=1,
            failed_attempts=1,
            dead_letters=0,
            in_flight=2,
            in_flight_bytes=20,
            running=0,
            waiting=1,
            partitions=1,
            paused=0,
            held_seconds=2.5,
            held_partition="orders-0",
            hot_key=b"a",
            hot_records=2,
        ),
    )


def test_a_line_for_a_terminal() -> None:
    """The line is written once a second, with the rate since the last one, and not longer than the terminal."""
    runs, now_ms = new_runs()
    written: list[str] = []
    line = ProgressLine(written.append, lambda: now_ms[0], width=70)
    line.end()
    line.show(lambda: measure_progress([runs]))
    line.show(lambda: measure_progress([runs]))
    taken = runs.next_run()
    assert taken is not None
    runs.next_run(taken[0])
    now_ms[0] += 2000
    line.show(lambda: measure_progress([runs]))
    line.end()
    assert written == [
        "\r\x1b[Kbill: 0 handled, 3 in flight",
        "\r\x1b[Kbill: 1 handled, 0/s, 2 in flight, orders-0 is held up for 2 s"[: 4 + 69],
        "\n",
    ]


def test_a_closed_terminal_does_not_end_the_worker() -> None:
    """A worker that goes on in the background, after the end of its terminal, shows no line."""
    runs, now_ms = new_runs()

    def refuse(_text: str) -> None:
        raise OSError(errno.EIO, "Input/output error")

    line = ProgressLine(refuse, lambda: now_ms[0])
    line.show(lambda: measure_progress([runs]))
    line.end()


def test_figures_for_prometheus() -> None:
    """Each handler has its counters and gauges."""
    pytest.importorskip("prometheus_client")
    runs, _ = new_runs()
    metrics = WorkerMetrics("billing", lambda: measure_progress([runs]))
    samples = {sample.name: sample for metric in metrics.collect() for sample in metric.samples}
    assert samples["klamm_worker_handled_records_total"].value == 0
    assert samples["klamm_worker_records_in_flight"].value == 3
    assert samples["klamm_worker_records_in_flight"].labels == {"group": "billing", "handler": "bill"}
    metrics.close()


def test_a_wrong_address_for_figures_is_refused() -> None:
    """The error names the option."""
    app = Worker("no-broker:9092", group="billing")
    app.handler("orders")(print)
    with pytest.raises(WorkerError, match="metrics='9464'"):
        app.run(metrics="9464")
    assert app.progress() == ()
