"""Tests that a flow has one backfill at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.pipelines import Pipeline, PipelineError, to_files, to_topic, topic
from klamm.pipelines.declare.flow import Flow
from klamm.pipelines.run.backfill.backfill_record import Arguments, BackfillRecord, Phase, backfills_folder
from klamm.pipelines.run.backfill.backfill_status import BackfillStatus, refuse_second_backfill
from klamm.pipelines.run.pipeline_run import refuse_run
from klamm.pipelines.run.place import Place
from klamm.pipelines.status.flow_status import Runner, read_status


@pytest.fixture
def flow() -> Flow:
    pipeline = Pipeline("flights")
    pipeline.flow(source=topic("in"), sink=to_topic("out"), name="late")(lambda flights: flights)
    return pipeline.flows["late"]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.at("flights", bootstrap_servers="b:1", checkpoints=str(tmp_path))


def test_a_backfill_that_was_planned_before_another_began_is_refused(place: Place, flow: Flow) -> None:
    """Two commands may both plan a backfill while none runs. The second one that begins is refused, and leaves the
    status of the first alone; after the end of the first it may begin."""
    refuse_second_backfill(place, flow)
    with BackfillStatus(place, flow):
        first = read_status(backfills_folder(place, flow))
        with pytest.raises(PipelineError, match="runs a backfill of flow late already"), BackfillStatus(place, flow):
            pass
        assert read_status(backfills_folder(place, flow)) == first

    with BackfillStatus(place, flow):
        pass
    status = read_status(backfills_folder(place, flow))
    assert status is not None
    assert status.state == "stopped"


def test_of_two_backfills_at_one_moment_one_goes_on(place: Place, flow: Flow) -> None:
    """Who finds the status of another process after writing its own is refused; the other finds its own."""
    with BackfillStatus(place, flow):
        status = read_status(backfills_folder(place, flow))
        assert status is not None
        refuse_second_backfill(place, flow, runner=status.runner)
        with pytest.raises(PipelineError, match="runs a backfill of flow late already"):
            refuse_second_backfill(place, flow, runner=Runner.this_process("overwritten"))


def test_a_flow_does_not_begin_while_its_files_are_claimed(place: Place) -> None:
    """While a backfill checks the files that it is to replace, their flow does not begin. After the end of the
    backfill's process, as by a loss of power, it may: nothing is replaced yet, and the backfill checks again. A begun
    replacement has to be finished first."""
    pipeline = Pipeline("flights")
    pipeline.flow(source=topic("in"), sink=to_files("/data", partition_by="day"), name="late")(lambda flights: flights)
    flow = pipeline.flows["late"]

    def store(phase: Phase) -> None:
        arguments = Arguments("earliest", None, "live", None)
        BackfillRecord(f"{backfills_folder(place, flow)}/{arguments.id}", arguments, {}, 0, phase).store()

    with BackfillStatus(place, flow):
        store("computed")
        refuse_run(place, [flow], 0)
        store("claimed")
        with pytest.raises(PipelineError, match="flow late can't run while a backfill replaces its files"):
            refuse_run(place, [flow], 0)
    refuse_run(place, [flow], 0)
    store("replacing")
    with pytest.raises(PipelineError, match=r"finish it with the same command: .* --from earliest --into live"):
        refuse_run(place, [flow], 0)
