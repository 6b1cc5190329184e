"""Tests that what a flow declares has an effect on its run: the interval, lists and patterns of topics, further options
of the source, and the output mode `complete`."""

from __future__ import annotations

import json as standard_json
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer
from tests.spark.pipelines.conftest import Background, Runs
from tests.support.spark_topics import Topic, create_topic

from klamm.pipelines import Pipeline, json, to_batches, to_topic, topic

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient
    from pyspark.sql import DataFrame

SCHEMA = "number int"


def number(value: int) -> str:
    return standard_json.dumps({"number": value})


def unchanged(numbers: DataFrame) -> DataFrame:
    return numbers


def written(topic: Topic) -> Counter[Any]:
    """Returns the committed values of a topic with one partition, parsed unless they are no JSON."""
    return Counter(_parsed(record.value or b"") for record in topic.records(1)[0])


def _parsed(value: bytes) -> Any:
    try:
        return standard_json.loads(value)["number"]
    except ValueError:
        return value


def test_an_interval_between_micro_batches(runs: Runs, name: str, new_topic: Callable[..., Topic]) -> None:
    """A flow with an interval reads what is there at its start, and the next records only after the interval. Its dead
    letters follow at once, another flow does not wait, and a stop does not wait either."""
    numbers = new_topic()
    numbers.produce([number(0), "no JSON"])
    pipeline = Pipeline(name)
    source = topic(numbers.name, decode=json(SCHEMA))
    pipeline.flow(source=source, sink=to_topic(f"{name}-seldom"), name="seldom", every="100 days")(unchanged)
    pipeline.flow(source=source, sink=to_topic(f"{name}-often"), name="often", bad_records="drop")(unchanged)
    run = runs.run(pipeline, once=False)
    seldom, often = run.flows
    background = Background(run)
    background.wait_for(lambda: [query.records for query in seldom.status().queries.values()] == [2, 2])

    for value in range(1, 4):
        numbers.produce([number(value)])
        background.wait_for(lambda: often.status().figures.records == 2 + value)  # noqa: B023 (called in this turn)
    run.request_stop()

    assert background.join() is True
    assert written(runs.topic(f"{name}-seldom")) == Counter([0])
    assert written(runs.topic(f"{name}.seldom.dead-letters")) == Counter([b"no JSON"])
    assert numbers.committed(f"{name}.seldom", 1) == [2]
    assert written(runs.topic(f"{name}-often")) == Counter(range(4))


def test_lists_and_patterns(runs: Runs, name: str, admin: AdminClient, bootstrap_servers: str) -> None:
    """A flow reads all topics of a list, or all topics whose names match a pattern, also those that are made later. So
    do its dead letters."""
    first, second, third = (f"{name}-numbers-{each}" for each in ("first", "second", "third"))

    def fill(topic: str, value: int) -> None:
        create_topic(admin, bootstrap_servers, topic, 1, {}).produce([number(value), f"bad {value}"])

    pipeline = Pipeline(name)
    sources = {
        "listed": topic([first, second], decode=json(SCHEMA)),
        "matched": topic(pattern=f"^{name}-numbers-", decode=json(SCHEMA)),
    }
    for flow, source in sources.items():
        pipeline.flow(source=source, sink=to_topic(f"{name}-{flow}"), name=flow)(unchanged)
    fill(first, 1)
    fill(second, 2)

    assert runs.once(pipeline)
    fill(third, 3)
    assert runs.once(pipeline)

    for flow, values in (("listed", [1, 2]), ("matched", [1, 2, 3])):
        assert written(runs.topic(f"{name}-{flow}")) == Counter(values)
        letters = written(runs.topic(f"{name}.{flow}.dead-letters"))
        assert letters == Counter(b"bad %d" % value for value in values)


def test_options_of_the_source(runs: Runs, name: str, new_topic: Callable[..., Topic]) -> None:
    """Further options reach the source of a flow and of its dead letters: with `read_committed`, neither of them reads
    records of a transaction that was aborted."""
    numbers = new_topic()
    producer = Producer({"bootstrap.servers": numbers.bootstrap_servers, "transactional.id": name})
    producer.init_transactions(60)
    producer.begin_transaction()
    for value in (number(1), "bad 1"):
        producer.produce(numbers.name, value)
    producer.flush(60)
    producer.abort_transaction(60)
    numbers.wait_for_markers()
    numbers.produce([number(2), "bad 2"])
    pipeline = Pipeline(name)
    options: dict[str, dict[str, str | int | float | bool]] = {
        "all": {},
        "committed": {"kafka.isolation.level": "read_committed"},
    }
    for flow, more in options.items():
        source = topic(numbers.name, decode=json(SCHEMA), options=more)
        pipeline.flow(source=source, sink=to_topic(f"{name}-{flow}"), name=flow)(unchanged)

    assert runs.once(pipeline)

    for flow, values in (("all", [1, 2]), ("committed", [2])):
        assert written(runs.topic(f"{name}-{flow}")) == Counter(values)
        letters = written(runs.topic(f"{name}.{flow}.dead-letters"))
        assert letters == Counter(b"bad %d" % value for value in values)


def test_the_whole_result_in_each_micro_batch(runs: Runs, name: str, new_topic: Callable[..., Topic]) -> None:
    """In the output mode `complete`, each micro-batch writes the whole result, to a topic and to a function."""
    numbers = new_topic()
    batches: list[Counter[tuple[int, int]]] = []
    pipeline = Pipeline(name)
    source = topic(numbers.name, decode=json(SCHEMA))

    def keep(frame: DataFrame, batch_id: int) -> None:
        batches.append(Counter((row.number, row["count"]) for row in frame.collect()))

    for flow, sink in (("topic", to_topic(f"{name}-counts", key="number")), ("function", to_batches(keep))):
        pipeline.flow(source=source, sink=sink, output_mode="complete", name=flow, bad_records="drop")(
            lambda numbers: numbers.groupBy("number").count()
        )
    numbers.produce(map(number, [1, 2]))
    assert runs.once(pipeline)
    numbers.produce(map(number, [1]))
    assert runs.once(pipeline)

    results = [Counter({(1, 1): 1, (2, 1): 1}), Counter({(1, 2): 1, (2, 1): 1})]
    assert batches == results
    counts = [(record.key, record.value) for record in runs.topic(f"{name}-counts").records(1)[0]]
    assert Counter(counts) == Counter(
        (b"%d" % value, b'{"count":%d}' % count) for result in results for value, count in result
    )
