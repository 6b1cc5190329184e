"""Tests what happens to records that do not decode or fail the flow's check."""

from __future__ import annotations

import json as standard_json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.spark.pipelines.conftest import Background, Runs
from tests.support.spark_topics import Record, Topic, create_topic

from klamm.pipelines import Pipeline, dead_letters, json, raw, to_batches, to_topic, topic

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient
    from pyspark.sql import DataFrame

SCHEMA = "dest string, delay int"
GOOD = {"dest": "JFK", "delay": 20}
TOO_LARGE = {"dest": "LAX", "delay": 5000}


def text(value: dict[str, Any]) -> str:
    return standard_json.dumps(value)


def late(flights: DataFrame) -> DataFrame:
    return flights.where("delay > 15").select("dest", "delay")


def test_dead_letters_have_the_original_bytes(runs: Runs, name: str, new_topic: Callable[..., Topic]) -> None:
    """Bad records go to the dead-letter topic with key, value and headers unchanged, with their reason and origin; the
    flow writes the good ones. Both queries commit to groups of their own."""
    flights = new_topic(partitions=2)
    flights.produce_records(
        [
            {"value": text(GOOD), "key": "a"},
            {"value": "no JSON", "key": "b", "headers": [("trace", b"\x01")]},
            {"value": text(TOO_LARGE), "key": b"\xff"},
            {"value": None, "key": "d"},
            {"value": text({"dest": "BOS"}), "key": "e"},
        ],
        partition=1,
    )
    pipeline = Pipeline(name)
    pipeline.flow(
        source=topic(flights.name, decode=json(SCHEMA)),
        sink=to_topic(f"{name}-late", key="dest"),
        check="delay IS NULL OR delay < 3000",
    )(late)

    assert runs.once(pipeline)

    assert runs.topic(f"{name}-late").records(1) == [[Record(b"JFK", b'{"delay":20}')]]
    (letters,) = runs.topic(f"{name}.late.dead-letters").records(1)
    assert [(letter.key, letter.value) for letter in letters] == [
        (b"b", b"no JSON"),
        (b"\xff", text(TOO_LARGE).encode()),
        (b"d", None),
    ]
    headers = [dict(letter.headers) for letter in letters]
    assert headers[0]["trace"] == b"\x01"
    assert headers[1]["klamm.reason"] == b"the check is not true: delay IS NULL OR delay < 3000"
    assert [each["klamm.offset"] for each in headers] == [b"1", b"2", b"3"]
    assert {each["klamm.partition"] for each in headers} == {b"1"}
    assert {each["klamm.topic"] for each in headers} == {flights.name.encode()}
    assert {each["klamm.flow"] for each in headers} == {f"{name}.late".encode()}
    assert all(each["klamm.reason"] and each["klamm.timestamp"] for each in headers)
    assert flights.committed(f"{name}.late", 2)[1] == 5
    assert flights.committed(f"{name}.late.dead-letters", 2)[1] == 5
    status = runs.status(pipeline, "late")
    assert (status.state, status.queries["flow"].bad_records, status.queries["flow"].records) == ("stopped", 3, 5)


def test_a_large_record_becomes_a_dead_letter(
    runs: Runs, name: str, new_topic: Callable[..., Topic], admin: AdminClient, bootstrap_servers: str
) -> None:
    """A bad record may be as large as its topic allows: the limit is that of the topic of dead letters."""
    flights = new_topic(max_message_bytes=str(4 << 20))
    large = "no JSON " * (1 << 18)
    flights.produce([large], **{"message.max.bytes": 4 << 20})
    create_topic(admin, bootstrap_servers, f"{name}-bad", 1, {"max.message.bytes": str(5 << 20)})
    pipeline = Pipeline(name, max_restarts=0)
    pipeline.flow(
        source=topic(flights.name, decode=json(SCHEMA)),
        sink=to_topic(f"{name}-late"),
        bad_records=dead_letters(f"{name}-bad"),
    )(late)

    assert runs.once(pipeline)

    (letter,) = runs.topic(f"{name}-bad").records(1)[0]
    assert letter.value == large.encode()


def test_dead_letters_go_on_without_their_marker(
    runs: Runs, name: str, new_topic: Callable[..., Topic], admin: AdminClient
) -> None:
    """After the topic of dead letters was deleted, with the marker in it, the flow stops and names the option with
    which it goes on; a flow may set options of the sink that writes its dead letters."""
    flights = new_topic()
    flights.produce(["bad"])

    def declared(**options: str) -> Pipeline:
        pipeline = Pipeline(name, max_restarts=0)
        pipeline.flow(
            source=topic(flights.name, decode=json(SCHEMA)),
            sink=to_topic(f"{name}-late"),
            bad_records=dead_letters(options=options),
            name="late",
        )(late)
        return pipeline

    letters = runs.topic(f"{name}.late.dead-letters")
    assert runs.once(declared())
    admin.delete_topics([letters.name], operation_timeout=30)[letters.name].result()
    flights.produce(["worse"])
    run = runs.run(declared())
    assert not run.run()
    message = run.flows[0].message or ""
    batch = re.search(r"klamm\.sink\.first\.batch=([\w-]+/\d+) if they don't", message)
    assert batch is not None, message

    assert runs.once(declared(**{"klamm.sink.first.batch": batch[1]}))

    assert [letter.value for letter in letters.records(1)[0]] == [b"worse"]


def test_dropped_records_are_counted(runs: Runs, name: str, new_topic: Callable[..., Topic]) -> None:
    """Dropped records leave a count, which goes on over runs, and no topic."""
    flights = new_topic()
    flights.produce([text(GOOD), "no JSON", "nor this"])
    pipeline = Pipeline(name)
    pipeline.flow(source=topic(flights.name, decode=json(SCHEMA)), sink=to_topic(f"{name}-late"), bad_records="drop")(
        late
    )

    assert runs.once(pipeline)
    flights.produce(["bad again", text(GOOD)])
    assert runs.once(pipeline)

    assert len(runs.topic(f"{name}-late").records(1)[0]) == 2
    assert runs.status(pipeline, "late").queries.keys() == {"flow"}
    assert runs.status(pipeline, "late").queries["flow"].bad_records == 3


def test_a_bad_record_can_fail_the_flow(runs: Runs, name: str, new_topic: Callable[..., Topic]) -> None:
    """With "fail", the first bad record ends the flow without restarts: a restart would find it again. The message
    names the record and the micro-batch, and nothing of the micro-batch is written."""
    flights = new_topic()
    flights.produce([text(GOOD), "no JSON"])
    pipeline = Pipeline(name)
    pipeline.flow(source=topic(flights.name, decode=json(SCHEMA)), sink=to_topic(f"{name}-late"), bad_records="fail")(
        late
    )

    run = runs.run(pipeline)
    assert not run.run()

    message = run.flows[0].message
    assert message is not None
    assert "a bad record: " in message
    assert f"(topic {flights.name}, partition 0, offset 1)" in message
    assert f"micro-batch 0 (offsets {flights.name}-0 0 to 1)" in message
    assert runs.status(pipeline, "late").queries["flow"].restarts == 0
    assert runs.topic(f"{name}-late").records(1) == [[]]


def test_tombstones_may_be_kept_or_dropped(runs: Runs, name: str, new_topic: Callable[..., Topic]) -> None:
    """A record without a value is bad, is dropped without a count, or is a row of nulls with its key."""
    flights = new_topic()
    flights.produce_records([{"value": text(GOOD), "key": "a"}, {"value": None, "key": "b"}])
    seen: dict[str, list[Any]] = {"keep": [], "drop": []}
    pipeline = Pipeline(name)
    for word in ("keep", "drop"):

        def remember(frame: DataFrame, batch_id: int, word: str = word) -> None:
            seen[word] += [tuple(row) for row in frame.collect()]

        pipeline.flow(
            source=topic(flights.name, decode=json(SCHEMA), tombstones=word),
            sink=to_batches(remember),
            check="delay < 3000",
            bad_records="fail",
            name=word,
        )(lambda flights: flights.selectExpr("dest", "string(_record.key)"))

    assert runs.once(pipeline)

    assert sorted(seen["keep"], key=str) == [("JFK", "a"), (None, "b")]
    assert seen["drop"] == [("JFK", "a")]


def test_a_check_may_be_a_function(runs: Runs, name: str, new_topic: Callable[..., Topic]) -> None:
    """A check may be a function that returns a column; a check that is null is not passed."""
    flights = new_topic()
    flights.produce([text(GOOD), text({"dest": "BOS"}), text(TOO_LARGE)])

    def is_plausible(frame: DataFrame) -> Any:
        return frame.delay < 3000

    pipeline = Pipeline(name)
    pipeline.flow(
        source=topic(flights.name, decode=json(SCHEMA)),
        sink=to_topic(f"{name}-late"),
        check=is_plausible,
        bad_records=dead_letters(f"{name}-bad"),
    )(late)

    assert runs.once(pipeline)

    reasons = [dict(letter.headers)["klamm.reason"] for letter in runs.topic(f"{name}-bad").records(1)[0]]
    assert reasons == [b"the check is not true: is_plausible"] * 2


def declared(name: str, flights: Topic, bad_records: str) -> Pipeline:
    """Returns a pipeline with one flow."""
    pipeline = Pipeline(name)
    pipeline.flow(
        source=topic(flights.name, decode=json(SCHEMA)), sink=to_topic(f"{name}-late"), bad_records=bad_records
    )(late)
    return pipeline


def test_dead_letters_of_a_flow_with_a_history_begin_now(
    runs: Runs, name: str, new_topic: Callable[..., Topic]
) -> None:
    """When a flow that dropped its bad records gets dead letters, these begin at the flow's position: the earlier bad
    records were dropped as declared then, and may be deleted from the topic."""
    flights = new_topic()
    flights.produce(["bad 0", "bad 1"])

    assert runs.once(declared(name, flights, "drop"))
    flights.delete_before(2)
    flights.produce(["bad 2"])
    assert runs.once(declared(name, flights, "dead-letters"))

    assert [letter.value for letter in runs.topic(f"{name}.late.dead-letters").records(1)[0]] == [b"bad 2"]


def test_dead_letters_start_after_the_first_micro_batch(runs: Runs, name: str, new_topic: Callable[..., Topic]) -> None:
    """The query for dead letters starts when the flow has finished a micro-batch, so that the first rows come sooner.
    It reads the records of this micro-batch nevertheless, also of a flow that had no dead letters before."""
    flights = new_topic()
    flights.produce(["bad 0"])

    assert runs.once(declared(name, flights, "drop"))
    flights.produce(["bad 1"])
    run = runs.run(declared(name, flights, "dead-letters"), once=False)
    (flow,) = run.flows
    background = Background(run)
    background.wait_for(lambda: flow.status().queries["dead-letters"].bad_records == 1)
    run.request_stop()
    assert background.join()

    assert [letter.value for letter in runs.topic(f"{name}.late.dead-letters").records(1)[0]] == [b"bad 1"]


def test_raw_records(runs: Runs, name: str, new_topic: Callable[..., Topic]) -> None:
    """Without a decoder a flow gets the bytes of the value, and headers if it asks for them."""
    flights = new_topic()
    flights.produce_records([{"value": b"\x00\xff", "key": b"k", "headers": [("h", b"1")]}])
    pipeline = Pipeline(name)
    pipeline.flow(
        source=topic(flights.name, decode=raw(), headers=True),
        sink=to_topic(f"{name}-copy", key="key", value="value", headers="headers"),
        name="copy",
    )(lambda flights: flights.selectExpr("value", "_record.key AS key", "_record.headers AS headers"))

    assert runs.once(pipeline)

    assert runs.topic(f"{name}-copy").records(1) == [[Record(b"k", b"\x00\xff", (("h", b"1"),))]]
