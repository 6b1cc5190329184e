"""Tests when the rule of what is bad may change."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from klamm.pipelines import DeclarationError, Pipeline, to_topic, topic
from klamm.pipelines import json as json_decoder
from klamm.pipelines.declare.flow import Flow
from klamm.pipelines.run.bad_record_rule import Rule, are_dead_letters_behind, bad_record_rule, rule_of_run
from klamm.pipelines.run.flow_identity import keep_identity, refuse_lost_records
from klamm.pipelines.run.place import Place


def flow(**arguments: Any) -> Flow:
    pipeline = Pipeline("flights")
    given = {"source": topic("t"), "sink": to_topic("out"), "name": "late", "check": "delay < 3000"}
    pipeline.flow(**{**given, **arguments})(lambda flights: flights)
    return pipeline.flows["late"]


def place(folder: Path) -> Place:
    return Place.at("flights", bootstrap_servers="kafka:9092", checkpoints=str(folder))


def start(folder: Path, **arguments: Any) -> None:
    """Does with the rule what a start of the flow does."""
    declared = flow(**arguments)
    start_with(folder, declared, bad_record_rule(declared))


def start_with(folder: Path, declared: Flow, rule: Rule) -> None:
    refuse_lost_records(place(folder), declared, rule)
    keep_identity(place(folder), declared, rule)


def plan(checkpoint: str, batch: int, end: int, *, finished: bool = True) -> None:
    """Writes the files of a micro-batch, as Spark does."""
    for folder in ("offsets", "commits"):
        Path(checkpoint, folder).mkdir(parents=True, exist_ok=True)
    Path(checkpoint, "offsets", str(batch)).write_text(f'v1\n{{}}\n{{"t":{{"0":{end}}}}}')
    if finished:
        Path(checkpoint, "commits", str(batch)).write_text("v1\n{}")


def finish(folder: Path, flow_end: int | None, letters_end: int | None) -> None:
    """Writes a finished micro-batch of each query, and the start of both."""
    here = place(folder)
    Path(here.flow_folder("late")).mkdir(parents=True, exist_ok=True)
    starts = {role: {"t": {"0": 2}} for role in ("flow", "dead_letters")}
    Path(here.flow_folder("late"), "start.json").write_text(json.dumps({"flights": starts}))
    for checkpoint, end in (
        (here.checkpoint("late"), flow_end),
        (here.dead_letters_checkpoint("late"), letters_end),
    ):
        if end is not None:
            plan(checkpoint, 0, end)


def below(limit: int) -> Callable[[Any], Any]:
    return lambda frame: frame.delay < limit


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"check": "delay < 5000"}, "the check of flights was `delay < 3000`, now `delay < 5000`"),
        ({"check": None}, "the check of flights was `delay < 3000`, now none"),
        ({"check": below(1)}, "now the function <lambda> "),
        ({"source": topic("t", tombstones="keep")}, "the tombstones of flights were bad, now keep"),
        ({"source": topic("t", decode=json_decoder("delay int"))}, "the decoder of flights was raw "),
    ],
)
def test_a_change_while_dead_letters_are_behind(tmp_path: Path, arguments: dict[str, Any], text: str) -> None:
    """While the dead letters are behind the flow, another rule is refused with what has changed and what to do, also at
    the next attempt. It is possible when they have reached the flow, and without the stored identity."""
    finish(tmp_path, 9, 5)
    start(tmp_path)

    for _ in range(2):
        with pytest.raises(DeclarationError) as refused:
            start(tmp_path, **arguments)
    assert text in str(refused.value)
    assert "at different records (t-0: 9 and 5)" in str(refused.value)
    assert "--once" in str(refused.value)
    assert f"delete {place(tmp_path).flow_folder('late')}/identity.json" in str(refused.value)
    start(tmp_path, source=topic(["t", "u"]), every="1 minute")

    plan(place(tmp_path).dead_letters_checkpoint("late"), 1, 9)
    start(tmp_path, **arguments)
    plan(place(tmp_path).checkpoint("late"), 1, 12)
    with pytest.raises(DeclarationError):
        start(tmp_path)
    Path(place(tmp_path).flow_folder("late"), "identity.json").unlink()
    start(tmp_path)


@pytest.mark.parametrize("flow_end", [None, 2])
@pytest.mark.parametrize("letters_end", [None, 2])
def test_a_query_without_a_micro_batch_is_at_its_start(
    tmp_path: Path, flow_end: int | None, letters_end: int | None
) -> None:
    """A query that has finished no micro-batch is where it starts."""
    finish(tmp_path, flow_end, letters_end)
    start(tmp_path)

    start(tmp_path, check="true")


@pytest.mark.parametrize(("flow_end", "letters_end"), [(None, 5), (5, None), (5, 7)])
def test_dead_letters_elsewhere(tmp_path: Path, flow_end: int | None, letters_end: int | None) -> None:
    """Dead letters that are ahead, as those of an older version may be, or that have not begun, are at another record
    as well."""
    finish(tmp_path, flow_end, letters_end)
    start(tmp_path)

    with pytest.raises(DeclarationError, match="at different records"):
        start(tmp_path, check="true")


@pytest.mark.parametrize("which", ["flow", "dead letters"])
def test_an_unfinished_micro_batch(tmp_path: Path, which: str) -> None:
    """A micro-batch that is planned and not finished may have been written under the former rule. One without records
    does no harm."""
    finish(tmp_path, 9, 9)
    start(tmp_path)
    here = place(tmp_path)
    checkpoint = here.checkpoint("late") if which == "flow" else here.dead_letters_checkpoint("late")

    plan(checkpoint, 1, 9, finished=False)
    start(tmp_path, check="true")
    plan(checkpoint, 1, 12, finished=False)
    with pytest.raises(DeclarationError, match=rf"the {which} ha\w+ an unfinished micro-batch \(1\)"):
        start(tmp_path)


def test_an_identity_of_an_older_version(tmp_path: Path) -> None:
    """An identity without a rule counts as unchanged, and gets the rule."""
    finish(tmp_path, 5, 7)
    start(tmp_path)
    file = Path(place(tmp_path).flow_folder("late"), "identity.json")
    stored = json.loads(file.read_text())
    del stored["bad records"]
    file.write_text(json.dumps(stored))

    start(tmp_path, check="true")

    with pytest.raises(DeclarationError, match="was `true`, now `false`"):
        start(tmp_path, check="false")


def test_flows_without_dead_letters(tmp_path: Path) -> None:
    """Without dead letters the rule may always change; the one under which dead letters were written last is kept."""
    finish(tmp_path, 9, 5)
    start(tmp_path)

    start(tmp_path, check="true", bad_records="drop")

    with pytest.raises(DeclarationError, match="was `delay < 3000`, now `true`"):
        start(tmp_path, check="true")


def test_dead_letters_that_begin_again_where_the_flow_is(tmp_path: Path) -> None:
    """Dead letters whose checkpoint and start were deleted after a while without them begin where the flow is. So no
    record is between the two, and the check may be another one."""
    finish(tmp_path, 9, 5)
    start(tmp_path)
    start(tmp_path, check="true", bad_records="drop")
    folder = Path(place(tmp_path).flow_folder("late"))
    shutil.rmtree(folder / "dead-letters")
    (folder / "start.json").unlink()

    start(tmp_path, check="true")


def test_another_schema(tmp_path: Path) -> None:
    """A decoder that is declared without its schema may get another one, when the file with the schemas was deleted.
    That is refused while the dead letters are behind; the message tells where the former schema is."""
    finish(tmp_path, 9, 5)
    declared = flow(source=topic("t", decode=json_decoder()))
    former, other = (
        rule_of_run(bad_record_rule(declared), {"flights": {"schema": each}}, {})
        for each in ("delay int", "delay text")
    )
    start_with(tmp_path, declared, former)

    with pytest.raises(DeclarationError, match="the schema of flights is not that of the last run, while") as refused:
        start_with(tmp_path, declared, other)
    folder = place(tmp_path).flow_folder("late")
    assert f"write that object to {folder}/schema.json first" in str(refused.value)
    stored = json.loads(Path(folder, "identity.json").read_text())["bad records"]["schemas"]
    assert stored == {"flights": {"schema": "delay int"}}
    start_with(tmp_path, declared, former)

    plan(place(tmp_path).dead_letters_checkpoint("late"), 1, 9)
    start_with(tmp_path, declared, other)


def test_a_declared_schema_is_a_part_of_the_decoder(tmp_path: Path) -> None:
    """A schema that the declaration has is told once, as another decoder: the former code brings it back."""
    finish(tmp_path, 9, 5)
    rules = []
    for schema in ("delay int", "delay string"):
        declared = flow(source=topic("t", decode=json_decoder(schema)))
        rules.append(rule_of_run(bad_record_rule(declared), {"flights": {"schema": schema}}, {}))
    start_with(tmp_path, declared, rules[0])

    with pytest.raises(DeclarationError, match="the decoder of flights was json ") as refused:
        start_with(tmp_path, declared, rules[1])
    assert "schema.json" not in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"spark.sql.session.timeZone": "Europe/Berlin"}, "timeZone was UTC, now Europe/Berlin, while"),
        ({"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": "false"}, "was not set, now false, while"),
    ],
)
def test_other_settings_of_the_session(tmp_path: Path, settings: dict[str, str], text: str) -> None:
    """A setting may change what a check says of a record, so another one is refused while the dead letters are behind.
    A rule of an older version of klamm has no settings, and counts as unchanged."""
    finish(tmp_path, 9, 5)
    declared = flow()
    start(tmp_path)
    start_with(tmp_path, declared, rule_of_run(bad_record_rule(declared), {}, {"spark.sql.session.timeZone": "UTC"}))

    with pytest.raises(DeclarationError, match=text):
        start_with(tmp_path, declared, rule_of_run(bad_record_rule(declared), {}, settings))


def test_the_advice_for_a_replay(tmp_path: Path) -> None:
    """A refused replay names the command that runs a replay."""
    finish(tmp_path, 9, 5)
    start(tmp_path)
    changed = replace(flow(check="true"), replays=flow())

    with pytest.raises(DeclarationError, match=r"former code with `klamm pipeline replay FILE --dead-letters`"):
        start_with(tmp_path, changed, bad_record_rule(changed))


def test_another_version_of_python(tmp_path: Path) -> None:
    """The refusal names both versions of Python, since each has bytecode of its own."""
    finish(tmp_path, 9, 5)
    start(tmp_path, check=below(1))
    file = Path(place(tmp_path).flow_folder("late"), "identity.json")
    stored = json.loads(file.read_text())
    stored["bad records"]["python"] = "3.8"
    file.write_text(json.dumps(stored))

    with pytest.raises(DeclarationError, match=r"the last run had Python 3\.8"):
        start(tmp_path, check=below(2))


def test_dead_letters_that_are_behind(tmp_path: Path) -> None:
    """Dead letters are behind if the flow has finished more than they have."""
    here = place(tmp_path)
    found = []
    finish(tmp_path, None, None)
    for flow_end, letters_end in ((2, None), (5, None), (5, 2), (5, 5), (5, 7)):
        finish(tmp_path, flow_end, letters_end)
        found.append(are_dead_letters_behind(here, flow()))

    assert found == [False, True, True, False, False]
