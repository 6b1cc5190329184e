"""Tests the stored state of backfills."""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.pipelines import Pipeline, PipelineError, to_topic, topic
from klamm.pipelines.run.backfill.backfill_range import SourceRange
from klamm.pipelines.run.backfill.backfill_record import (
    Arguments,
    BackfillRecord,
    Counts,
    backfills_folder,
    read_records,
    unfinished,
)
from klamm.pipelines.run.place import Place
from klamm.protocol.types import Offset, PartitionIndex, TopicPartition

ARGUMENTS = Arguments("2h", None, "topic:again", "delay > 1")


def test_an_unfinished_backfill_is_found_by_its_arguments(tmp_path: Path) -> None:
    """The record of an interrupted backfill comes back as it was stored, for the same arguments only; that of a
    finished one is not continued."""
    pipeline = Pipeline("flights")
    pipeline.flow(source=topic("in"), sink=to_topic("out"), name="late")(lambda flights: flights)
    flow = pipeline.flows["late"]
    place = Place.at("flights", bootstrap_servers="b:1", checkpoints=str(tmp_path))
    assert unfinished(place, flow, ARGUMENTS) is None
    key = TopicPartition("in", PartitionIndex(0))
    chosen = SourceRange({key: Offset(3)}, {key: Offset(8)})
    assert chosen.size == 5
    folder = f"{backfills_folder(place, flow)}/{ARGUMENTS.id}"
    record = BackfillRecord(folder, ARGUMENTS, {"flights": chosen}, 1, "computed", Counts(5, 1, None), {"new": ["a"]})

    record.store()

    assert unfinished(place, flow, ARGUMENTS) == record
    assert unfinished(place, flow, Arguments("2h", None, "topic:again", None)) is None
    record.phase = "finished"
    record.store()
    assert unfinished(place, flow, ARGUMENTS) is None
    assert [each.phase for each in read_records(place, flow)] == ["finished"]
    (Path(folder) / "rows").mkdir()
    record.clean()
    assert [path.name for path in Path(folder).iterdir()] == ["backfill.json"]
    record.forget()
    assert not Path(folder).exists()


def test_arguments_are_told_as_they_were_written() -> None:
    """A message shows the options to repeat."""
    assert str(ARGUMENTS) == '--from 2h --into topic:again --where "delay > 1"'
    assert str(Arguments("1", "2", "live", None)) == "--from 1 --to 2 --into live"


def test_a_damaged_record_is_told(tmp_path: Path) -> None:
    """A record that can't be read is named, with what to do."""
    pipeline = Pipeline("flights")
    pipeline.flow(source=topic("in"), sink=to_topic("out"), name="late")(lambda flights: flights)
    place = Place.at("flights", bootstrap_servers="b:1", checkpoints=str(tmp_path))
    folder = Path(backfills_folder(place, pipeline.flows["late"]), "0123")
    folder.mkdir(parents=True)
    for content in ("{", "{}", '{"arguments": {"x": 1}, "ranges": {}}'):
        (folder / "backfill.json").write_text(content)
        with pytest.raises(PipelineError, match=r"0123/backfill\.json is of another version of klamm, or damaged"):
            unfinished(place, pipeline.flows["late"], ARGUMENTS)
