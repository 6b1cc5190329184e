"""The rule by which a flow's records are bad, and the refusal of a change that would lose records.

A flow keeps its good records, and its dead letters keep the bad ones. The two are separate queries. A record that the
flow has read under a rule by which it is bad, and that the dead letters read under one by which it is good, would be in
neither output. So the rule may change only while both stand at the same record. Each run ends there, unless it crashes.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator, Mapping
from typing import Any, Final

from klamm.pipelines.declare.flow import Flow
from klamm.pipelines.errors import DeclarationError
from klamm.pipelines.run.checkpoint_reader import end_of_finished, read_state, unfinished_batch
from klamm.pipelines.run.place import Place
from klamm.pipelines.run.starting_offsets import stored_starts
from klamm.pipelines.run.value_fingerprint import value_fingerprint
from klamm.spark.source.offsets import PartitionOffsets

__all__ = ["Rule", "are_dead_letters_behind", "bad_record_rule", "refuse_changed_rule", "rule_of_run"]

Rule = Mapping[str, Any]
"""What decides for each source which records are bad, as JSON."""

_PYTHON: Final = "python"
_SOURCES: Final = "sources"
_SCHEMAS: Final = "schemas"
_SETTINGS: Final = "settings"
_LONGEST_CHECK: Final = 200


def bad_record_rule(flow: Flow) -> Rule:
    """Returns the part of the rule that a flow declares.

    Call it once in a run: an object in a closure may change while it is used.
    """
    sources = {
        parameter: {
            "decoder": f"{source.decode.name} {value_fingerprint(source.decode)}",
            "tombstones": source.tombstones,
            "check": _check(flow.checks.get(parameter)),
        }
        for parameter, source in flow.sources.items()
    }
    # Another version of Python makes other bytecode of the same code.
    return {_SOURCES: sources, _PYTHON: ".".join(platform.python_version_tuple()[:2])}


def rule_of_run(declared: Rule, schemas: Mapping[str, Mapping[str, Any]], settings: Mapping[str, str]) -> Rule:
    """Returns the whole rule: with what fixes each source's decoder, and the settings of the session."""
    return {**declared, _SCHEMAS: json.loads(json.dumps(schemas)), _SETTINGS: dict(settings)}


def _changes(before: Rule, now: Rule) -> Iterator[str]:
    """Yields a phrase for each part of the rule that has changed. A part that an older version of klamm has not stored
    counts as unchanged."""
    old: Mapping[str, Mapping[str, str]] = before.get(_SOURCES, {})
    new: Mapping[str, Mapping[str, str]] = now[_SOURCES]
    for parameter in new.keys() & old.keys():
        for part, text in new[parameter].items():
            if (former := old[parameter].get(part, text)) == text:
                continue
            verb = "were" if part == "tombstones" else "was"
            yield f"the {part} of {parameter} {verb} {_cut(former)}, now {_cut(text)}"
    for parameter in _changed_schemas(before, now):
        yield f"the schema of {parameter} is not that of the last run"
    if _SETTINGS in before and _SETTINGS in now:
        former_settings, settings = before[_SETTINGS], now[_SETTINGS]
        for key in sorted(former_settings.keys() | settings.keys()):
            one, other = former_settings.get(key, "not set"), settings.get(key, "not set")
            if one != other:
                yield f"the setting {key} was {one}, now {other}"


def _changed_schemas(before: Rule, now: Rule) -> list[str]:
    """Returns the sources whose decoder is declared as before, and has another schema."""
    old, new = before.get(_SCHEMAS, {}), now.get(_SCHEMAS, {})
    return [
        parameter
        for parameter in new.keys() & old.keys()
        if new[parameter] != old[parameter] and _decoder(before, parameter) == _decoder(now, parameter)
    ]


def _decoder(rule: Rule, parameter: str) -> Any:
    return rule.get(_SOURCES, {}).get(parameter, {}).get("decoder")


def refuse_changed_rule(place: Place, flow: Flow, before: Rule | None, now: Rule) -> None:
    """Raises `DeclarationError` if the rule has changed at a moment when a run would lose records. Raises `OSError`.

    Without a rule of `before`, as an older version of klamm leaves it, the rule counts as unchanged.
    """
    if before is None or not flow.writes_dead_letters or _are_dead_letters_new(place, flow):
        return
    found = list(_changes(before, now))
    if not found or (where := _apart(place, flow)) is None:
        return
    former, present = before.get(_PYTHON), now[_PYTHON]
    python = "" if former == present else f" (the last run had Python {former}, this one has {present})"
    folder = place.flow_folder(flow.name)
    command = "run FILE --once" if flow.replays is None else "replay FILE --dead-letters"
    former_schema = ""
    if _changed_schemas(before, now):
        of_schema = place.flow_folder((flow.replays or flow).name)
        former_schema = (
            f" The former schema is in {folder}/identity.json, under `bad records`, `{_SCHEMAS}`: write that object to "
            f"{of_schema}/schema.json first, and delete this file afterwards."
        )
    raise DeclarationError(
        f"flow {flow.name}: {'; '.join(found)}{python}, while {where}. A record that the flow has left out as bad, and "
        f"that is good now, would be in neither output. Run the former code with `klamm pipeline {command}`: both "
        f"then end at the same record, and the change is possible.{former_schema} To go on regardless, and perhaps "
        f"without such records, delete {folder}/identity.json"
    )


def are_dead_letters_behind(place: Place, flow: Flow) -> bool:
    """Returns whether the flow has finished records that its dead letters have not. Raises `OSError`."""
    letters = _position(place, flow, is_dead_letters=True)
    return any(letters.get(key, 0) < offset for key, offset in end_of_finished(place.checkpoint(flow.name)).items())


def _are_dead_letters_new(place: Place, flow: Flow) -> bool:
    """Returns whether the dead letters will begin where the flow is: they have no start of their own."""
    has_begun = read_state(place.dead_letters_checkpoint(flow.name)).planned is not None
    return not has_begun and not stored_starts(place, flow, is_dead_letters=True)


def _apart(place: Place, flow: Flow) -> str | None:
    """Returns a phrase about where the flow and its dead letters are; None if both are at the same record."""
    for location, what in (
        (place.checkpoint(flow.name), "the flow has"),
        (place.dead_letters_checkpoint(flow.name), "the dead letters have"),
    ):
        batch = unfinished_batch(location)
        if batch is not None and batch.ranges:
            return f"{what} an unfinished micro-batch ({batch.batch_id})"
    letters = _position(place, flow, is_dead_letters=True)
    for key, offset in sorted(_position(place, flow, is_dead_letters=False).items()):
        other = letters.get(key, 0)
        if other != offset:
            return f"the flow and its dead letters are at different records ({key}: {offset:,} and {other:,})"
    return None


def _position(place: Place, flow: Flow, *, is_dead_letters: bool) -> PartitionOffsets:
    """Returns the position after the last finished micro-batch of a query; without one, its stored start."""
    location = place.dead_letters_checkpoint(flow.name) if is_dead_letters else place.checkpoint(flow.name)
    if read_state(location).finished is not None:
        return end_of_finished(location)
    return stored_starts(place, flow, is_dead_letters=is_dead_letters)


def _check(check: object) -> str:
    if check is None:
        return "none"
    if isinstance(check, str):
        return f"`{check}`"
    return f"the function {getattr(check, '__name__', type(check).__name__)} {value_fingerprint(check)}"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_CHECK else f"{text[:_LONGEST_CHECK]}…"
