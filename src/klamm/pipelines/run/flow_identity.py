"""Stores the part of a flow's declaration that must not change, next to its checkpoints, and refuses changes of it.

Spark's checkpoint has offsets for each source by its number, and state for the operators; the marker of an
exactly-once sink belongs to one topic. A flow that changes these and keeps its checkpoint would fail later with an
error that does not name the cause, or read and write something else than declared. What is not in the identity may
change: code without state, checks, decoders, options.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from klamm.pipelines.declare.flow import Flow
from klamm.pipelines.declare.sinks import ToBatches, ToFormat, ToOrigins, ToTopic
from klamm.pipelines.errors import DeclarationError
from klamm.pipelines.run.bad_record_rule import Rule, refuse_changed_rule
from klamm.pipelines.run.checkpoint_reader import read_state
from klamm.pipelines.run.place import Place
from klamm.spark.folders import folder_at

__all__ = [
    "changes",
    "identity",
    "keep_identity",
    "keep_order_of_sources",
    "refuse_changes",
    "refuse_lost_records",
    "refuse_other_order",
]

_FILE: Final = "identity.json"
_DEAD_LETTERS: Final = "dead letters"
_RULE: Final = "bad records"
_ORDER: Final = "order of sources"
_WHERE: Final = frozenset(
    (
        *("collection", "database", "dbtable", "es.resource", "index", "keyspace", "resource", "sfdatabase"),
        *("sfschema", "table", "topic"),
    )
)
"""Options of formats that say where the rows go, in lower case."""


def identity(place: Place, flow: Flow) -> dict[str, Any]:
    """Returns the part of the declaration that belongs to the checkpoints, as JSON."""
    found: dict[str, Any] = {
        "sources": {parameter: _topics(flow, parameter) for parameter in flow.sources},
        "sink": _sink(place, flow),
        "output mode": flow.output_mode,
    }
    if flow.writes_dead_letters:
        found[_DEAD_LETTERS] = f"topic {place.dead_letters_topic(flow)}"
    return found


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Yields a phrase for each change that needs a new checkpoint."""
    old, new = before.get("sources", {}), now["sources"]
    if list(old) != list(new):
        yield f"the sources were {', '.join(old)} and are {', '.join(new)}"
    else:
        for parameter, topics in new.items():
            if not set(old[parameter]) & set(topics):
                yield f"{parameter} read {', '.join(old[parameter])} and reads {', '.join(topics)}"
    for key in ("sink", "output mode", _DEAD_LETTERS):
        if key in before and key in now and before[key] != now[key]:
            yield f"the {key} {'were' if key == _DEAD_LETTERS else 'was'} {before[key]}, now {now[key]}"


def refuse_changes(place: Place, flow: Flow) -> None:
    """Raises `DeclarationError` if the flow's checkpoints belong to another declaration. Raises `OSError`."""
    before = _stored(place, flow)
    if not before or read_state(place.checkpoint(flow.name)).planned is None:
        return
    if found := list(changes(before, identity(place, flow))):
        raise DeclarationError(
            f"flow {flow.name}: its checkpoint belongs to another declaration: {'; '.join(found)}. Restore the "
            "declaration to go on, or give the flow another name to begin again at its start; to begin again with this "
            f"name, delete the folder {place.flow_folder(flow.name)}"
        )


def refuse_other_order(place: Place, flow: Flow, order: Sequence[str]) -> None:
    """Raises `DeclarationError` if the flow's function uses its sources in another order than its checkpoint has them.

    Spark numbers the sources by their places in the plan, and would give each one the offsets of another. Raises
    `OSError`.
    """
    before = _stored(place, flow).get(_ORDER)
    if before is None or before == list(order) or read_state(place.checkpoint(flow.name)).planned is None:
        return
    raise DeclarationError(
        f"flow {flow.name}: its function used its sources in the order {', '.join(before)}, and uses them in the order "
        f"{', '.join(order)}. The checkpoint has the offsets of the sources in that order, for example of a union or a "
        "join. Restore the order to go on, or give the flow another name to begin again at its start; to begin again "
        f"with this name, delete the folder {place.flow_folder(flow.name)}"
    )


def keep_order_of_sources(place: Place, flow: Flow, order: Sequence[str]) -> None:
    """Stores the order in which the flow's function uses its sources. Raises `OSError`."""
    before = _stored(place, flow)
    if before.get(_ORDER) != list(order):
        _store(place, flow, {**before, _ORDER: list(order)})


def refuse_lost_records(place: Place, flow: Flow, rule: Rule) -> None:
    """Raises `DeclarationError` if the present rule of what is bad may lose records that the flow has left out under
    the former one. Raises `OSError`."""
    refuse_changed_rule(place, flow, _stored(place, flow).get(_RULE), rule)


def keep_identity(place: Place, flow: Flow, rule: Rule) -> None:
    """Stores the identity of the present declaration, and the rule of what is bad. Raises `OSError`."""
    before, now = _stored(place, flow), identity(place, flow)
    if flow.writes_dead_letters:
        now[_RULE] = rule
    # Dead letters that are not written now keep their checkpoint, and may be written again.
    kept = {key: before[key] for key in (_DEAD_LETTERS, _RULE, _ORDER) if key in before}
    if before != (wanted := kept | now):
        _store(place, flow, wanted)


def _store(place: Place, flow: Flow, wanted: Mapping[str, Any]) -> None:
    folder_at(place.flow_folder(flow.name)).replace(_FILE, json.dumps(wanted, indent=2).encode())


def _stored(place: Place, flow: Flow) -> dict[str, Any]:
    content = folder_at(place.flow_folder(flow.name)).read(_FILE)
    try:
        return {} if content is None else dict(json.loads(content))
    except (ValueError, TypeError) as error:
        raise DeclarationError(
            f"flow {flow.name}: {place.flow_folder(flow.name)}/{_FILE} is damaged: {error}. Delete this file if the "
            "flow's sources, sink and output mode are as they were: it is then written again"
        ) from None


def _topics(flow: Flow, parameter: str) -> list[str]:
    source = flow.sources[parameter]
    # The topics of a pattern may change, and so may the pattern.
    return ["topics of a pattern"] if source.pattern is not None else sorted(source.topics)


def _sink(place: Place, flow: Flow) -> str:
    sink = flow.sink
    if isinstance(sink, ToTopic):
        return f"topic {place.topic(sink.topic)}, {sink.semantics}"
    if isinstance(sink, ToBatches):
        return "a function"
    if isinstance(sink, ToOrigins):
        return "the topics of the records"
    path = place.files_path(sink)
    if path is not None:
        return f"{sink.format} in {path}"
    options = place.format_options(flow, sink) if isinstance(sink, ToFormat) else {}
    # Other options may change, and may be passwords.
    where = {key: value for key, value in sorted(options.items()) if key.lower() in _WHERE}
    return " ".join([sink.format, *(f"{key}={value}" for key, value in where.items())])
