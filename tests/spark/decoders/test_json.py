"""`json(…)`: which values are good, what they become, and the reasons of bad ones."""

from __future__ import annotations

import datetime
import io
import json as standard_json
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.examples import examples
from tests.support.spark_topics import Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from klamm.pipelines.decoders.json_text import JsonDecoder

_SCHEMA = (
    "time timestamp, dest string, delay int, share double, day date, price decimal(6,2), late boolean, "
    "place struct<lat:double, tags:array<string>, box:struct<left:int>>, codes array<int>, seats map<string,int>, "
    "legs array<struct<from:string, miles:int>>"
)


def _json(schema: Any = None, **options: Any) -> JsonDecoder:
    from klamm.pipelines.decoders.json_text import json

    return json(schema, **options)


def _records(spark: SparkSession, values: Iterable[bytes | None]) -> DataFrame:
    return spark.createDataFrame([(number, value) for number, value in enumerate(values)], "n int, value binary")


def _decode(
    spark: SparkSession, values: Iterable[bytes | None], schema: Any = _SCHEMA, tombstones: Any = "bad", **options: Any
) -> list[Row]:
    from klamm.pipelines.decoders.decoder import DecodingPlace

    pinned = _json(schema, **options).pin(DecodingPlace())
    return sorted(pinned.decode(_records(spark, values), tombstones).collect(), key=lambda row: int(row.n))


def test_a_good_record_becomes_typed_columns(spark: SparkSession) -> None:
    """An object becomes a struct; fields without a column are ignored, columns without a field are null."""
    value = (
        b'{"time":"2026-01-31T12:00:00+01:00","dest":"JFK","delay":5,"share":1,"day":"2026-01-31","price":9.5,'
        b'"late":true,"place":{"lat":1.5,"tags":["a"]},"codes":[1,null],"seats":{"A":1},"legs":[{"miles":7}],"x":[{}]}'
    )
    (row,) = _decode(spark, [value])
    assert row.bad_reason is None
    found = row.decoded.asDict(recursive=True)
    assert found["time"].astimezone(datetime.UTC) == datetime.datetime(2026, 1, 31, 11, tzinfo=datetime.UTC)
    assert (found["dest"], found["delay"], found["share"], found["late"]) == ("JFK", 5, 1.0, True)
    assert found["place"] == {"lat": 1.5, "tags": ["a"], "box": None}
    assert (found["codes"], found["seats"], found["legs"]) == ([1, None], {"A": 1}, [{"from": None, "miles": 7}])


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "the value is not JSON"),
        (b"  ", "the value is not JSON"),
        (b"hello", "the value is not JSON"),
        (b'{"dest":', "the value is not JSON"),
        (b'{"dest":"JFK"} x', "the value is not JSON"),
        (b'{"dest":"JFK"}} x', "the value is not JSON"),
        (b'{"dest":"JFK"},"arr_delay":2}', "the value is not JSON"),
        (b'{"dest":"JFK"}{"dest":"LGA"}', "the value is not JSON"),
        (b'{"dest":"JFK"},{"dest":"LGA"}', "the value is not JSON"),
        (b'{"dest":"\xff"}', "the value is not UTF-8 text"),
        (b"null", "the value is null, not a JSON object"),
        (b"12", "the value is a number, not a JSON object"),
        (b'"JFK"', "the value is a JSON string, not a JSON object"),
        (b' [{"dest":"JFK"}]', "the value is a JSON array, not a JSON object"),
        (b"true", "the value is a boolean, not a JSON object"),
        (b'{"delay":"late"}', "field delay: 'late' is not int"),
        (b'{"delay":1.5}', "field delay: '1.5' is not int"),
        (b'{"delay":12345678901}', "field delay: '12345678901' is not int"),
        (b'{"time":"noon","late":"yes"}', "field time: 'noon' is not timestamp; field late: 'yes' is not boolean"),
        (b'{"place":5}', "field place: '5' is not struct<lat:double,tags:array<string>,box…"),
        (b'{"place":{"lat":"north","tags":["a"]}}', "field place.lat: 'north' is not double"),
        (b'{"place":{"box":{"left":"x"}}}', "field place.box.left: 'x' is not int"),
        (b'{"codes":[1,"x"]}', "field codes: '[1,\"x\"]' is not array<int>"),
        (b'{"seats":{"A":"x"}}', 'field seats: \'{"A":"x"}\' is not map<string,int>'),
        (b'{"legs":[{"miles":"x"}]}', 'field legs: \'[{"miles":"x"}]\' is not array<struct<from:string,miles:int>>'),
        (b'{"delay":"%s"}' % (b"9" * 50), f"field delay: '{'9' * 40}…' is not int"),
        (b'{"day":"2026-13-01"}', "field day: '2026-13-01' is not date"),
        (None, "the value is null (a tombstone)"),
    ],
)
def test_the_reason_says_what_is_wrong(spark: SparkSession, value: bytes | None, reason: str) -> None:
    """A bad record has no columns, and a reason that names what is wrong."""
    (row,) = _decode(spark, [value])
    assert (row.decoded, row.bad_reason) == (None, reason)


def test_a_field_that_is_not_null_must_be_there(spark: SparkSession) -> None:
    """A record without a field that the schema has as NOT NULL is bad; a struct that is absent requires none."""
    schema = "dest string NOT NULL, place struct<lat:double NOT NULL>"
    values = [
        b'{"dest":"JFK"}',
        b'{"dest":null}',
        b"{}",
        b'{"dest":"JFK","place":{}}',
        b'{"dest":"x","place":{"lat":1}}',
    ]
    missing = "field dest is missing or null, but NOT NULL"
    inner = "field place.lat is missing or null, but NOT NULL"
    assert [row.bad_reason for row in _decode(spark, values, schema)] == [None, missing, missing, inner, None]


@pytest.mark.parametrize(
    ("tombstones", "expected"),
    [
        ("bad", [(0, None), (1, "the value is null (a tombstone)")]),
        ("drop", [(0, None)]),
        ("keep", [(0, None), (1, None)]),
    ],
)
def test_tombstones_are_bad_dropped_or_kept(
    spark: SparkSession, tombstones: str, expected: list[tuple[int, str | None]]
) -> None:
    """A null value is bad by default; it is dropped or kept, with null columns, if the flow says so."""
    rows = _decode(spark, [b'{"delay":1}', None], "delay int", tombstones)
    assert [(row.n, row.bad_reason) for row in rows] == expected
    assert [row.decoded for row in rows[1:]] == [None] * len(rows[1:])


def test_other_words_for_tombstones_are_refused(spark: SparkSession) -> None:
    """A misspelt word for tombstones is refused with the possible ones."""
    from klamm.pipelines.decoders.decoder import DecoderError

    with pytest.raises(DecoderError, match="tombstones='skip': say 'bad', 'drop' or 'keep'"):
        _decode(spark, [], "delay int", "skip")


def test_the_names_of_columns_collide_with_nothing(spark: SparkSession) -> None:
    """A field may have any name, also those that the decoder itself uses."""
    value = b'{"w":1,"c":2,"decoded":3,"bad_reason":4,"_corrupt_record":5}'
    schema = "w int, c int, decoded int, bad_reason int, _corrupt_record int"
    good, bad = _decode(spark, [value, b'{"w":1,"c":"x"}'], schema)
    assert tuple(good.decoded) == (1, 2, 3, 4, 5)
    assert bad.bad_reason == "field c: 'x' is not int"


def test_times_without_a_zone_are_utc_in_any_session(spark: SparkSession) -> None:
    """The time zone of the session does not change what a record means; the option `timeZone` does."""
    value = b'{"time":"2026-01-31 12:00:00"}'
    before = spark.conf.get("spark.sql.session.timeZone")
    assert before is not None
    seconds = []
    try:
        for zone, options in [("UTC", {}), ("America/New_York", {}), ("UTC", {"timeZone": "America/New_York"})]:
            spark.conf.set("spark.sql.session.timeZone", zone)
            (row,) = _decode(spark, [value], "time timestamp", **options)
            seconds.append(row.decoded.time.timestamp())
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert seconds[0] == seconds[1]
    assert seconds[2] - seconds[0] == 5 * 3600


def test_the_value_is_parsed_once(spark: SparkSession) -> None:
    """Spark does not copy the parsing into the filter for good records, which would parse each value twice."""
    from klamm.pipelines.decoders.decoder import DecodingPlace

    decoded = _json("delay int, dest string").pin(DecodingPlace()).decode(_records(spark, [b"{}"]))
    plan = io.StringIO()
    with redirect_stdout(plan):
        decoded.filter("bad_reason IS NULL").select("decoded.*").explain()
    whole = "StructField(w,StructType(StructField(delay,IntegerType,true),StructField(dest,StringType,true)),true)"
    assert plan.getvalue().count(whole) == 1


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        ("delay whole", "not a schema of Spark"),
        ("", "names columns and types"),
        ("a int, A int", "the columns a and A have the same name for Spark"),
    ],
)
def test_a_wrong_schema_is_refused(spark: SparkSession, schema: str, error: str) -> None:
    """A schema that can't be columns is refused with a sentence."""
    from klamm.pipelines.decoders.decoder import DecoderError, DecodingPlace

    with pytest.raises(DecoderError, match=error):
        _json(schema).pin(DecodingPlace())


@pytest.mark.parametrize("option", ["mode", "columnNameOfCorruptRecord"])
def test_options_that_find_bad_records_are_refused(option: str) -> None:
    """Options that would change which records are bad are refused."""
    from klamm.pipelines.decoders.decoder import DecoderError

    with pytest.raises(DecoderError, match=option):
        _json("a int", **{option: "x"})


def test_the_schema_is_inferred_once_from_the_newest_records(
    spark: SparkSession, new_topic: Callable[..., Topic]
) -> None:
    """Without a schema, it comes from the newest records of all partitions; later starts use the stored one."""
    from klamm.pipelines.decoders.decoder import DecodingPlace
    from klamm.pipelines.decoders.topic_sample import sample_values

    topic = new_topic(partitions=3)
    topic.produce(['{"old":1}'] * 20, partition=0)
    topic.produce(['{"dest":"JFK","delay":1}'] * 5, partition=0)
    topic.produce(['{"delay":1.5}', "x"], partition=1)
    options = {**topic.options(), "kafka.group.id": "none", "includeHeaders": "true", "startingOffsets": "latest"}
    place = DecodingPlace([topic.name], lambda records: sample_values(spark, options, 10))
    pinned = _json().pin(place)
    assert pinned.schema.simpleString() == "struct<dest:string,delay:double>"
    assert pinned.notes == ("1 of 7 sampled records are no JSON objects",)

    stored = standard_json.loads(standard_json.dumps(pinned.stored))
    again = _json().pin(DecodingPlace([topic.name], stored=stored))
    assert again.schema == pinned.schema
    assert again.stored == pinned.stored


def test_an_empty_topic_has_no_schema(spark: SparkSession, topic: Topic) -> None:
    """Without records there is nothing to infer a schema from, and the error says what to do."""
    from klamm.pipelines.decoders.decoder import DecoderError, DecodingPlace
    from klamm.pipelines.decoders.topic_sample import sample_values

    place = DecodingPlace([topic.name], lambda records: sample_values(spark, topic.options(), records))
    with pytest.raises(DecoderError, match=f"{topic.name} has no record with a JSON object"):
        _json().pin(place)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=6,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(25))
@given(
    st.lists(
        st.dictionaries(st.sampled_from("abcd"), _VALUES, max_size=4).map(standard_json.dumps) | st.text(), max_size=40
    ),
    st.lists(st.binary(max_size=12), max_size=10),
)
def test_each_record_is_either_good_or_bad(spark: SparkSession, texts: list[str], others: list[bytes]) -> None:
    """Each value has columns or a reason, never both or neither, and a good one is a JSON object with these columns."""
    schema = "a int, b array<struct<a:int, b:string>>, c struct<a:double, d:boolean>, d map<string,int>"
    values = [*(text.encode("utf-8", "surrogatepass") for text in texts), *others]
    for row in _decode(spark, values, schema):
        assert (row.decoded is None) != (row.bad_reason is None)
        if row.decoded is None:
            assert len(row.bad_reason) <= 500
            assert row.bad_reason != "a field is of another type than in the schema"
            continue
        assert isinstance(standard_json.loads(bytes(row.value)), dict)
        if row.decoded.a is not None:
            assert row.decoded.a == standard_json.loads(bytes(row.value))["a"]
