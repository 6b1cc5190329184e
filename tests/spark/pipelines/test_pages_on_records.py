"""Does what the pages on bad records and on JSON with a schema say."""

from __future__ import annotations

import json as standard_json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.admin import AdminClient
from tests.spark.pipelines.conftest import Shell
from tests.support.page_code import page_blocks, page_code
from tests.support.spark_topics import Topic, create_topic
from tests.support.tutorial_output import differs
from tests.support.tutorial_page import Command, File, read_page

from klamm import pipelines
from klamm.testing import Broker

_ROOT: Final = Path(__file__).parents[3]
_BAD_RECORDS, _JSON = "how-to/handle-bad-records.md", "how-to/decode-json-with-a-schema.md"
_PARTITIONS: Final = 6
_GOOD: Final = '{"time": "2013-01-01T06:00:00Z", "dest": "ATL", "arr_delay": null}'
_LETTER: Final = re.compile(
    r"^(?P<key>\w+) (?P<value>\{.*)\nklamm.reason=.*,klamm.partition=(?P<partition>\d+),klamm.offset=(?P<offset>\d+),"
    r"klamm.timestamp=(?P<timestamp>\d+),",
    re.MULTILINE,
)


@pytest.fixture
def flights(klamm: Shell, monkeypatch: pytest.MonkeyPatch) -> Iterator[Topic]:
    """Creates the topic of the pages on a broker of its own, which the commands use."""
    with Broker() as broker:
        monkeypatch.setenv("KLAMM_BOOTSTRAP_SERVER", broker.bootstrap_servers)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        yield create_topic(admin, broker.bootstrap_servers, "flights", _PARTITIONS, {})


def output_of(klamm: Shell, command: str) -> str:
    """Returns what a command of a page prints. One that needs Spark has the shared session."""
    if command.startswith("klamm pipeline"):
        return klamm(*shlex.split(command)[1:])
    own = {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]), "LC_ALL": "C.UTF-8"}
    environment = {**os.environ, **own, "PYTHONPATH": str(_ROOT / "src")}
    ran = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_handle_bad_records(klamm: Shell, flights: Topic, tmp_path: Path) -> None:
    """The commands of the page print what it shows, for records at the places that it shows."""
    page = _ROOT / "docs" / _BAD_RECORDS
    commands = [step for step in read_page(page) if isinstance(step, Command)]
    letters = list(_LETTER.finditer(commands[0].output))
    assert len(letters) == 3
    for letter in letters:
        own: dict[str, Any] = {"key": letter["key"], "value": letter["value"], "timestamp": int(letter["timestamp"])}
        records: list[dict[str, Any]] = [*[{"value": _GOOD}] * int(letter["offset"]), own, {"value": _GOOD}]
        flights.produce_records(records, partition=int(letter["partition"]))
    tutorial = _ROOT / "docs" / "tutorial" / "first-pipeline.md"
    file = next(step for step in read_page(tutorial) if isinstance(step, File) and step.name == "flights.py")
    file.apply(tmp_path)
    klamm("pipeline", "run", "flights.py", "--once")
    (shown,) = re.findall(r"is in the topic itself: `(klamm consume [^`]*)`", page.read_text(encoding="utf-8"))
    _, before, bad, after = output_of(klamm, shown).splitlines()  # the first line has the columns
    assert (_GOOD in before, letters[1]["value"] in bad, _GOOD in after) == (True, True, True)

    replays = [command for command in commands if " replay " in command.text]
    assert commands[2:4] == replays
    replays.reverse()  # The page shows alternatives: each of them takes the dead letters of the run.
    for command in (*commands[:2], *replays, *commands[4:]):
        if command is replays[0]:
            corrected = (tmp_path / "flights.py").read_text().replace("arr_delay < 1000", "arr_delay < 3000")
            (tmp_path / "flights.py").write_text(corrected)
            klamm("pipeline", "run", "flights.py", "--once")
        printed, expected = output_of(klamm, command.text), command.output
        if not command.is_ordered:
            printed, expected = ("\n".join(sorted(each.splitlines())) for each in (printed, expected))
        assert not differs(expected, printed, {}, {}), printed
    (row,) = standard_json.loads(klamm("pipeline", "status", "flights.py", "-o", "json"))
    assert row["bad"] == len(letters)


def test_the_check_of_the_page(klamm: Shell, flights: Topic) -> None:
    """A cancelled flight passes the check, although null is not true; a field that has to be there is named."""
    (check,) = page_code(_BAD_RECORDS)
    flow = "def delays(flights):\n    return flights.select('dest', 'arr_delay')\n"
    write_flows(check + "\n" + flow)
    flights.produce(
        [_GOOD, '{"arr_delay": 7}', '{"dest": "JFK", "arr_delay": 3000}', '{"dest": "JFK", "arr_delay": 2999}'], 0
    )

    klamm("pipeline", "run", "flights.py", "--once")

    assert values(flights, "delays") == [{"arr_delay": None}, {"arr_delay": 2999}]
    assert reasons(flights, "flights.delays.dead-letters") == [
        "field dest is missing or null, but NOT NULL",
        "the check is not true: arr_delay IS NULL OR arr_delay < 3000",
    ]


def write_flows(*blocks: str) -> None:
    names = ", ".join(pipelines.__all__)
    head = f"from klamm.pipelines import {names}\n\npipeline = Pipeline('flights')\n"
    Path("flights.py").write_text("\n\n".join([head, *blocks]), encoding="utf-8")


def values(flights: Topic, name: str) -> list[Any]:
    records = Topic(name, flights.bootstrap_servers, flights.admin).records(1)[0]
    return [standard_json.loads(record.value or b"") for record in records]


def reasons(flights: Topic, name: str) -> list[str]:
    records = Topic(name, flights.bootstrap_servers, flights.admin).records(1)[0]
    return sorted((dict(record.headers)["klamm.reason"] or b"").decode() for record in records)


def test_decode_json_with_a_schema(klamm: Shell, flights: Topic) -> None:
    """The check shows the inferred schema and what the sample leaves open; the declared schemas give the columns and
    the reasons that the page names."""
    inferred, declared, german, registered = page_code(_JSON)
    flight = {"time": "2013-01-01T06:00:00Z", "dest": "JFK", "arr_delay": 20, "note": None}
    flights.produce([standard_json.dumps(flight)], 0)
    Path("flights.py").write_text(inferred, encoding="utf-8")
    checked = klamm("pipeline", "check", "flights.py")
    assert "as json: time string, dest string, arr_delay bigint, note string" in checked
    assert "note is a string: it is null in all sampled records" in checked
    klamm("pipeline", "run", "flights.py", "--once")
    assert values(flights, "delays") == [flight]

    flights.produce(
        [
            '{"time": "2013-01-01T06:00:00Z", "arr_delay": 20}',
            '{"time": "2013-01-01T06:00:00Z", "dest": "JFK", "arr_delay": "late"}',
            '{"time": "31.01.2013 06:00", "dest": "LAX", "place": {"lat": 1.5, "lon": 2}, "codes": [1, 2],'
            ' "seats": {"1A": 3}, "details": {"gate": 7}}',
        ],
        0,
    )
    page = (_ROOT / "docs" / _JSON).read_text(encoding="utf-8")
    of_page = ("place struct<lat: double, lon: double>", "codes array<int>", "seats map<string, int>")
    assert all(f"`{column}`" in page for column in of_page)
    flow = "@pipeline.flow(name='{name}', source={source}, sink=to_topic('{name}'))\ndef {name}(f):\n    return f"
    sources = {"typed": declared, "german": f"topic('flights', decode={german})"}
    sources["nested"] = f"topic('flights', decode=json('{', '.join(of_page)}, details string'))"
    write_flows(*(flow.format(name=name, source=source.strip()) for name, source in sources.items()))
    klamm("pipeline", "run", "flights.py", "--once")

    assert values(flights, "typed") == [{"time": "2013-01-01T06:00:00.000Z", "dest": "JFK", "arr_delay": 20}]
    assert {"field dest is missing or null, but NOT NULL", "field arr_delay: 'late' is not int"} < set(
        reasons(flights, "flights.typed.dead-letters")
    )
    assert values(flights, "german") == [{"time": "2013-01-31T06:00:00.000Z", "dest": "LAX"}]
    assert values(flights, "nested")[-1] == {
        "place": {"lat": 1.5, "lon": 2.0},
        "codes": [1, 2],
        "seats": {"1A": 3},
        "details": '{"gate":7}',
    }
    program: dict[str, Any] = {"topic": pipelines.topic}
    exec(registered, program)  # its registry is asked by a run, which tests/spark/decoders tests
    for decoder in (pipelines.avro, pipelines.protobuf):
        assert decoder(registry=program["schemas"]) is not None


def test_the_alerts_of_the_page() -> None:
    """The figures that the alerts ask for are those of the reference."""
    (alerts,) = page_blocks(_BAD_RECORDS, "yaml")
    reference = (_ROOT / "docs" / "reference" / "pipelines.md").read_text(encoding="utf-8")
    figures = re.findall(r"klamm_pipeline_\w+", alerts)
    assert len(figures) == 2
    assert all(f"`{figure}`" in reference for figure in figures)
