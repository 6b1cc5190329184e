"""Tests the end of a command while it announces its run."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from klamm.cli.pipeline.stop_signals import end_while_spark_starts
from klamm.pipelines import Pipeline, to_topic, topic
from klamm.pipelines.run.place import Place
from klamm.pipelines.run.run_announcement import RunAnnouncement
from klamm.pipelines.status.flow_status import read_status


@pytest.fixture
def _same_signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("_same_signals")
def test_a_signal_between_the_statuses_of_two_flows(tmp_path: Path) -> None:
    """SIGTERM comes when the first of two flows has its status and the second has not. No flow is left as one that
    starts: other machines would refuse to run it, and `klamm pipeline status` would take it for gone."""
    pipeline = Pipeline("flights")
    for name in ("first", "second"):
        pipeline.flow(source=topic("in"), sink=to_topic("out"), name=name)(lambda flights: flights)
    place = Place.at("flights", bootstrap_servers="b:1", checkpoints=str(tmp_path))
    first, second = (Path(place.flow_folder(name)) for name in ("first", "second"))
    second.mkdir(parents=True)
    os.mkfifo(second / "status.json")  # a read of this file waits for ever

    def end_when_announced() -> None:
        while not (first / "status.json").exists():
            threading.Event().wait(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    end_while_spark_starts()
    thread = threading.Thread(target=end_when_announced, daemon=True)
    thread.start()
    with pytest.raises(SystemExit), RunAnnouncement(place, pipeline.flows.values(), once=False):
        pass
    thread.join()

    status = read_status(str(first))
    assert status is not None
    assert (status.state, status.queries["flow"].state) == ("stopped", "stopped")
