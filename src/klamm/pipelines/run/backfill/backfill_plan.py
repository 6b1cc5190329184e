"""Plans a backfill: its target, its range, and whether it continues one that was interrupted."""

from __future__ import annotations

import time
from typing import NamedTuple

from klamm.pipelines.declare.flow import Flow
from klamm.pipelines.declare.pipeline import Pipeline
from klamm.pipelines.declare.sinks import ToFiles, ToTopic
from klamm.pipelines.errors import PipelineError
from klamm.pipelines.run.backfill.backfill_range import Border, SourceRange, resolve_range
from klamm.pipelines.run.backfill.backfill_record import (
    Arguments,
    BackfillRecord,
    backfills_folder,
    read_records,
    unfinished,
    unfinished_replacement,
)
from klamm.pipelines.run.backfill.backfill_status import refuse_second_backfill
from klamm.pipelines.run.backfill.backfill_target import Target, has_records, refuse_place_in_use, target_sink
from klamm.pipelines.run.checkpoint_reader import end_of_finished, is_settled
from klamm.pipelines.run.flow_identity import refuse_changes
from klamm.pipelines.run.place import Place
from klamm.pipelines.status.flow_status import is_alive, read_status
from klamm.protocol.types import Offset
from klamm.spark.source.offsets import PartitionOffsets

__all__ = ["Plan", "plan_backfill", "refuse_unfinished_batch"]


class Plan(NamedTuple):
    """A backfill that can begin, or continue."""

    target: Target
    sink: ToTopic | ToFiles
    record: BackfillRecord
    is_continued: bool

    @property
    def size(self) -> int:
        """The number of offsets to read."""
        return sum(each.size for each in self.record.ranges.values())


def plan_backfill(
    place: Place,
    pipeline: Pipeline,
    flow: Flow,
    target: Target,
    arguments: Arguments,
    *,
    borders: tuple[Border, Border | None],
    appends: bool = False,
) -> Plan:
    """Returns the plan, with the range of an interrupted backfill with the same arguments, or else with a new one.

    Without a border for the end, a range ends where the log ends now, or for the live sink, where the flow is.
    Raises `PipelineError` for a target that is in use, and what the cluster raises.
    """
    sink = target_sink(flow, target)
    refuse_place_in_use(place, pipeline, flow, target)
    refuse_second_backfill(place, flow)
    if target.is_live:
        refuse_changes(place, flow)
        other = unfinished_replacement(place, flow)
        if other is not None and other.arguments != arguments:
            raise PipelineError(
                f"flow {flow.name}: a backfill was interrupted while it replaced files. Finish it first: "
                f"{other.arguments}"
            )
    record = unfinished(place, flow, arguments)
    if target.is_live and (record is None or record.phase != "replacing") and not _runs(place, flow):
        refuse_unfinished_batch(place, flow)
    if record is not None:
        _refuse_another_target(place, pipeline, record, target)
        return Plan(target, sink, record, is_continued=True)
    if target.is_topic and not appends and has_records(place, target.name):
        raise PipelineError(
            f"the topic {target.name} has records already. Choose another topic, or write to this one with --append"
        )
    begin, end = borders
    ranges = {}
    for parameter in flow.sources:
        if target.is_live:
            ranges[parameter] = _range_of_live(place, flow, parameter, begin, end)
        else:
            ranges[parameter] = resolve_range(place, flow, parameter, begin, end or Border())
    known = {key for each in ranges.values() for key in each.ends}
    for border in (begin, end):
        if border is not None and border.offsets is not None and (unknown := border.offsets.keys() - known):
            raise PipelineError(f"flow {flow.name} does not read {min(unknown).topic}-{min(unknown).partition}")
    folder, now_ms = f"{backfills_folder(place, flow)}/{arguments.id}", time.time_ns() // 1_000_000
    return Plan(target, sink, BackfillRecord(folder, arguments, ranges, now_ms, target=str(target)), False)


def _runs(place: Place, flow: Flow) -> bool:
    """Returns whether a process runs the flow. Its files are replaced later, when it has ended."""
    try:
        status = read_status(place.flow_folder(flow.name))
    except ValueError:
        return False
    return status is not None and is_alive(status, time.time_ns() // 1_000_000)


def refuse_unfinished_batch(place: Place, flow: Flow) -> None:
    """Raises `PipelineError` if the flow has a micro-batch that is planned and not finished. Raises `OSError`."""
    if not is_settled(place.checkpoint(flow.name)):
        raise PipelineError(
            f"flow {flow.name} has a micro-batch that is not finished: its rows may be in the files already, and Spark "
            "would not write them again. Finish it with `klamm pipeline run FILE --once`, then run the same command "
            "again"
        )


def _refuse_another_target(place: Place, pipeline: Pipeline, record: BackfillRecord, target: Target) -> None:
    """Raises `PipelineError` if a continued backfill would overwrite a folder that is not its own."""
    if record.target is None or target.is_topic or target.is_live:
        return
    if record.target != str(target):
        raise PipelineError(
            f"this backfill was interrupted while it wrote to {record.target}, and --into means {target} here: run it "
            f"in the same working directory. To give it up, delete its folder {record.folder}"
        )
    for flow in pipeline.flows.values():
        for other in read_records(place, flow):
            if other.folder != record.folder and other.target == record.target and other.begun_ms >= record.begun_ms:
                raise PipelineError(
                    f"since this backfill was interrupted, another one of flow {flow.name} ({other.arguments}) has "
                    f"written to {target}. Choose another folder; to give this backfill up, delete its folder "
                    f"{record.folder}"
                )


def _range_of_live(place: Place, flow: Flow, parameter: str, begin: Border, end: Border | None) -> SourceRange:
    finished = end_of_finished(place.checkpoint(flow.name))
    if not finished:
        raise PipelineError(f"flow {flow.name} has not run yet, so its sink has nothing that could be replaced")
    found = resolve_range(place, flow, parameter, begin, end or Border())
    if end is None:
        ends = {
            key: max(found.starts[key], min(offset, finished.get(key, found.starts[key])))
            for key, offset in found.ends.items()
        }
        return SourceRange(found.starts, ends)
    _refuse_unread(flow, found, finished)
    return found


def _refuse_unread(flow: Flow, chosen: SourceRange, finished: PartitionOffsets) -> None:
    """Raises `PipelineError` if the range has records that the live flow will write later, a second time."""
    for key, end in chosen.ends.items():
        if end > chosen.starts[key] and end > finished.get(key, Offset(0)):
            raise PipelineError(
                f"flow {flow.name} has read {key.topic}-{key.partition} only to offset {finished.get(key, 0)}, and the "
                f"range ends at {end}: it would write the rest a second time. Leave out --to, or let it run there first"
            )
