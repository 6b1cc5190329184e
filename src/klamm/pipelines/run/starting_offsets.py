"""The offsets at which a flow without a checkpoint starts.

They are determined once and stored next to the checkpoint, since the flow's query and the query for its dead letters
must start at the same records: at `latest`, two queries would resolve it at two moments.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, Final

from klamm.client.cluster import Cluster
from klamm.client.committed_offsets import GroupOffsets
from klamm.pipelines.declare.declared_start import AtTime, GroupOfStart
from klamm.pipelines.declare.flow import Flow
from klamm.pipelines.run.checkpoint_reader import end_of_finished, read_state
from klamm.pipelines.run.place import Place
from klamm.pipelines.run.source_options import source_options
from klamm.spark.folders import folder_at
from klamm.spark.source.checkpoint.finished_offsets import lowest_offsets
from klamm.spark.source.offsets import EARLIEST_OFFSET, PartitionOffsets, offsets_from_json, offsets_to_json
from klamm.spark.source.options.options import SourceOptions
from klamm.spark.source.options.positions import AtTimestamp
from klamm.spark.source.planning.log_offsets import SubscribedOffsets, planner_for

__all__ = ["determined_starts", "log_of", "resolve_start", "starting_offsets", "stored_start", "stored_starts"]

Starts = Mapping[str, Mapping[str, Any]]
"""For each source its declared start, and the offsets at which each query starts, as JSON."""

_FILE: Final = "start.json"
_FLOW: Final = "flow"
_DEAD_LETTERS: Final = "dead_letters"


def starting_offsets(place: Place, flow: Flow, *, is_dead_letters: bool) -> dict[str, str | None]:
    """Returns the option `startingOffsets` for each source of a query; None if its checkpoint has the position.

    A checkpoint has the position only after its first micro-batch. Spark repeats an unfinished one from the start,
    which the checkpoint may lack (`klamm.spark.source.checkpoint.initial_offsets`). A query for dead letters that is
    new next to a flow with a history starts where the flow is now. Raises what the cluster raises, and `OSError`.
    """
    of_flow, of_letters = read_state(place.checkpoint(flow.name)), read_state(place.dead_letters_checkpoint(flow.name))
    if (of_letters if is_dead_letters else of_flow).finished is not None:
        return dict.fromkeys(flow.sources)
    folder = folder_at(place.flow_folder(flow.name))
    starts = determined_starts(
        flow,
        _stored(folder.read(_FILE)),
        has_begun=of_flow.planned is not None or of_letters.planned is not None,
        end_of_flow=None if of_flow.finished is None else end_of_finished(place.checkpoint(flow.name)),
        resolve=lambda parameter: resolve_start(place, flow, parameter),
        is_dead_letters=is_dead_letters,
    )
    role = _role(is_dead_letters=is_dead_letters)
    known = {parameter: offsets_from_json(starts[parameter][role]) for parameter in flow.sources}
    found = {
        parameter: json.dumps(offsets_to_json(_completed(place, flow, parameter, offsets)))
        for parameter, offsets in known.items()
    }
    folder.replace(_FILE, json.dumps(starts, indent=2).encode())
    return dict(found)


def determined_starts(
    flow: Flow,
    stored: Starts,
    *,
    has_begun: bool,
    end_of_flow: PartitionOffsets | None,
    resolve: Callable[[str], PartitionOffsets],
    is_dead_letters: bool,
) -> Starts:
    """Returns the stored starts, completed by those of a query that has finished no micro-batch.

    `has_begun` says whether a micro-batch of one of the two queries is planned, `end_of_flow` where the flow's last
    finished one ends. `resolve` returns the declared start of a source now.
    """
    starts = {parameter: dict(entry) for parameter, entry in stored.items()}
    role = _role(is_dead_letters=is_dead_letters)
    for parameter, source in flow.sources.items():
        entry, start = starts.setdefault(parameter, {}), str(source.start)
        # Another declared start has no effect on a flow that has begun.
        is_known = has_begun or entry.get("start") == start
        if is_known and role in entry:
            continue
        if is_dead_letters and end_of_flow is not None:
            entry |= {"start": start, role: offsets_to_json(end_of_flow)}
        elif is_dead_letters and is_known and _FLOW in entry:
            # The flow's first micro-batch is not finished. It is repeated from its start, and may have bad records.
            entry[role] = entry[_FLOW]
        else:
            # The present declaration decides. If it has no dead letters, a later query for them starts new.
            roles = (_FLOW, _DEAD_LETTERS) if flow.writes_dead_letters else (_FLOW,)
            starts[parameter] = {"start": start, **dict.fromkeys(roles, offsets_to_json(resolve(parameter)))}
    return starts


def stored_start(place: Place, flow: Flow, parameter: str) -> tuple[str, PartitionOffsets] | None:
    """Returns the start of the flow's query as an earlier run has declared and stored it.

    Returns None without one, or if the present declaration replaces it. Raises `OSError`.
    """
    entry = _stored(folder_at(place.flow_folder(flow.name)).read(_FILE)).get(parameter, {})
    has_begun = read_state(place.checkpoint(flow.name)).planned is not None
    if _FLOW not in entry or not (has_begun or entry.get("start") == str(flow.sources[parameter].start)):
        return None
    return str(entry.get("start")), offsets_from_json(entry[_FLOW])


def stored_starts(place: Place, flow: Flow, *, is_dead_letters: bool) -> PartitionOffsets:
    """Returns the stored start of a query in each partition, the lowest one of several sources. Raises `OSError`."""
    role = _role(is_dead_letters=is_dead_letters)
    entries = _stored(folder_at(place.flow_folder(flow.name)).read(_FILE)).values()
    return lowest_offsets(offsets_from_json(entry[role]) for entry in entries if role in entry)


def resolve_start(place: Place, flow: Flow, parameter: str) -> PartitionOffsets:
    """Returns the offset of each partition at the declared start. Raises what the cluster raises."""
    options, start = _options(place, flow, parameter), flow.sources[parameter].start
    with closing(Cluster(options.client)) as cluster:
        planner = planner_for(SubscribedOffsets(cluster, options.subscription), options)
        if isinstance(start, AtTime):
            return planner.resolve("start", AtTimestamp(start.timestamp_ms, latest_if_none=True))
        if not isinstance(start, GroupOfStart) and start != "committed":
            return planner.resolve("start", start)
        group_id = place.group(flow, parameter) if start == "committed" else start.group_id
        latest = planner.existing()
        committed = GroupOffsets(cluster, group_id).committed(latest)
        return planner.start_of_new(committed, latest)


def log_of(place: Place, flow: Flow, parameter: str) -> tuple[PartitionOffsets, PartitionOffsets]:
    """Returns the start and the end of each subscribed partition. Raises what the cluster raises."""
    options = _options(place, flow, parameter)
    with closing(Cluster(options.client)) as cluster:
        log = SubscribedOffsets(cluster, options.subscription)
        latest = planner_for(log, options).existing()
        return log.earliest(latest), latest


def _options(place: Place, flow: Flow, parameter: str) -> SourceOptions:
    return SourceOptions.for_stream(source_options(place, flow, parameter, starting_offsets=None))


def _completed(place: Place, flow: Flow, parameter: str, known: PartitionOffsets) -> PartitionOffsets:
    """Returns an offset for every partition that exists now: the source refuses others, and fewer."""
    _, latest = log_of(place, flow, parameter)
    return {key: known.get(key, EARLIEST_OFFSET) for key in latest}


def _role(*, is_dead_letters: bool) -> str:
    return _DEAD_LETTERS if is_dead_letters else _FLOW


def _stored(content: bytes | None) -> dict[str, dict[str, Any]]:
    try:
        parsed = {} if content is None else json.loads(content)
    except ValueError:
        return {}
    return {key: dict(value) for key, value in parsed.items()} if isinstance(parsed, Mapping) else {}
