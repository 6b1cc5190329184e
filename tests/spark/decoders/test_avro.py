"""`avro(…)` in Spark: plain, and with the schemas of a registry."""

from __future__ import annotations

import datetime
import decimal
import io
import json
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.ports import free_port
from tests.support.schema_registry import SchemaRegistry

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from pyspark.sql import Row, SparkSession

    from klamm.pipelines.decoders.schema_registry import Registry

pytest.importorskip("fastavro")

Decode = Callable[..., "list[Row]"]


def _order(*fields: Any, name: str = "Order") -> dict[str, Any]:
    return {"type": "record", "name": name, "namespace": "shop", "fields": list(fields)}


_ID = {"name": "id", "type": "int"}
_NOTE = {"name": "note", "type": ["null", "string"], "default": None}


@pytest.fixture
def topic_name() -> str:
    """Returns a name that no other test uses."""
    return f"avro-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def place(running_registry: SchemaRegistry) -> Registry:
    """Returns the registry as a flow declares it."""
    from klamm.pipelines.decoders.schema_registry import registry

    return registry(running_registry.url)


def _serialize(client: SchemaRegistryClient, topic: str, schema: Any, value: Any) -> bytes:
    """Returns what another program would produce."""
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    found = AvroSerializer(client, json.dumps(schema))(value, SerializationContext(topic, MessageField.VALUE))
    assert isinstance(found, bytes)
    return found


def _place(topic: str, **more: Any) -> Any:
    from klamm.pipelines.decoders.decoder import DecodingPlace

    return DecodingPlace([topic], **more)


def test_all_types_reach_spark(decode: Decode) -> None:
    """Values of each type arrive in Spark as they were written."""
    import fastavro

    from klamm.pipelines.decoders.avro_records import avro

    fields: dict[str, tuple[Any, Any]] = {
        "flag": ("boolean", True),
        "number": ("int", 1),
        "large": ("long", 2**40),
        "small": ("float", 1.5),
        "share": ("double", 2.5),
        "raw": ("bytes", b"\xff"),
        "name": ("string", "é"),
        "kind": ({"type": "enum", "name": "K", "symbols": ["A", "B"]}, "B"),
        "code": ({"type": "fixed", "name": "C", "size": 2}, b"xy"),
        "tags": ({"type": "array", "items": ["null", "string"]}, ["a", None]),
        "sizes": ({"type": "map", "values": "int"}, {"k": 1}),
        "inner": (_order(_ID, name="Inner"), {"id": 5}),
        "maybe": (["null", "string"], None),
        "either": (["null", "int", "string"], "x"),
        "price": ({"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}, decimal.Decimal("1.25")),
        "day": ({"type": "int", "logicalType": "date"}, datetime.date(2026, 1, 31)),
        "seen": (
            {"type": "long", "logicalType": "timestamp-millis"},
            datetime.datetime(2026, 1, 31, 12, 0, 0, 5000, datetime.UTC),
        ),
        "local": (
            {"type": "long", "logicalType": "local-timestamp-micros"},
            datetime.datetime(2026, 1, 31, 12, 0, 0, 7),
        ),
        "key": ({"type": "string", "logicalType": "uuid"}, uuid.UUID(int=7)),
    }
    schema = _order(*({"name": name, "type": kind} for name, (kind, _) in fields.items()))
    stream = io.BytesIO()
    fastavro.schemaless_writer(
        stream, fastavro.parse_schema(schema), {name: value for name, (_, value) in fields.items()}
    )

    good, bad, tombstone = decode(avro(schema), [stream.getvalue(), b"\x01", None])
    assert good.bad_reason is None
    found = good.decoded.asDict(recursive=True)
    assert found.pop("seen").astimezone(datetime.UTC) == fields["seen"][1]
    assert found == {
        **{name: value for name, (_, value) in fields.items() if name != "seen"},
        "either": {"member0": None, "member1": "x"},
        "key": str(uuid.UUID(int=7)),
    }
    assert (bad.decoded, bad.bad_reason) == (None, "the value ends before its Avro record does (the schema)")
    assert (tombstone.decoded, tombstone.bad_reason) == (None, "the value is null (a tombstone)")


def test_records_of_other_schemas_are_resolved_to_the_pinned_one(
    decode: Decode, registry_client: SchemaRegistryClient, place: Registry, topic_name: str
) -> None:
    """The newest schema at the first start is the reader schema; older and newer records are resolved to it."""
    from klamm.pipelines.decoders.avro_records import avro

    old = _serialize(registry_client, topic_name, _order(_ID), {"id": 1})
    new = _serialize(registry_client, topic_name, _order(_ID, _NOTE), {"id": 2, "note": "x"})
    decoder = avro(registry=place)
    pinned = decoder.pin(_place(topic_name))
    assert pinned.schema.simpleString() == "struct<id:int,note:string>"
    assert pinned.notes == (f"the reader schema is version 2 of {topic_name}-value",)

    more = {"name": "more", "type": "double", "default": 0.5}
    newest = _serialize(registry_client, topic_name, _order(_ID, _NOTE, more), {"id": 3, "note": None, "more": 1.0})
    stored = json.loads(json.dumps(pinned.stored))
    rows = decode(decoder, [old, new, newest], _place(topic_name, stored=stored))
    assert [tuple(row.decoded) for row in rows] == [(1, None), (2, "x"), (3, None)]
    assert decoder.pin(_place(topic_name, stored=stored)).stored == pinned.stored

    newer = avro(registry=place, version=3).pin(_place(topic_name, stored=stored))
    assert newer.schema.simpleString() == "struct<id:int,note:string,more:double>"


def test_a_declared_reader_schema_counts(
    decode: Decode, registry_client: SchemaRegistryClient, place: Registry, topic_name: str
) -> None:
    """A declared schema is the reader schema: fields have its names, types and defaults."""
    from klamm.pipelines.decoders.avro_records import avro

    value = _serialize(registry_client, topic_name, _order(_ID, _NOTE), {"id": 1, "note": "x"})
    reader = _order(
        {"name": "number", "aliases": ["id"], "type": "long"}, {"name": "size", "type": "int", "default": 7}
    )
    (row,) = decode(avro(reader, registry=place), [value])
    assert row.decoded.asDict() == {"number": 1, "size": 7}


def test_bad_records_have_the_reason(
    decode: Decode, registry_client: SchemaRegistryClient, place: Registry, topic_name: str
) -> None:
    """Each way in which a framed record can be bad has a reason that names it."""
    from confluent_kafka.schema_registry import Schema

    from klamm.pipelines.decoders.avro_records import avro

    good = _serialize(registry_client, topic_name, _order(_ID), {"id": 1})
    other = _serialize(registry_client, f"{topic_name}-other", _order(_NOTE, name="Other"), {"note": "x"})
    of_json = registry_client.register_schema(
        f"{topic_name}-json", Schema('{"type":"object","properties":{"id":{"type":"integer"}}}', "JSON")
    )
    other_id, good_id = (int.from_bytes(value[1:5], "big") for value in (other, good))
    rows = decode(
        avro(registry=place),
        [
            good,
            b"\0\0",
            b'{"id":1}',
            b"\0" + (10**9).to_bytes(4, "big") + good[5:],
            b"\0" + of_json.to_bytes(4, "big") + good[5:],
            other,
            good[:5],
            good + b"xx",
            None,
        ],
        _place(topic_name),
    )
    assert rows[0].decoded.id == 1
    reasons = [row.bad_reason for row in rows]
    assert reasons[:5] == [
        None,
        "the value has 2 bytes, too few for a schema id",
        "the value begins with the byte 123, not with 0 and a schema id",
        "schema id 1000000000 is not in the registry",
        f"schema id {of_json} is of the kind JSON, not AVRO",
    ]
    assert reasons[5].startswith(f"schema id {other_id} can't be read with the reader schema")
    assert reasons[6:] == [
        f"the value ends before its Avro record does (schema id {good_id})",
        f"the value has 2 bytes after its Avro record (schema id {good_id})",
        "the value is null (a tombstone)",
    ]


def test_schemas_refer_to_schemas(
    decode: Decode, registry_client: SchemaRegistryClient, place: Registry, topic_name: str
) -> None:
    """A schema in the registry may refer to other subjects' schemas; the stored one holds them."""
    from confluent_kafka.schema_registry import Schema, SchemaReference
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    from klamm.pipelines.decoders.avro_records import avro

    registry_client.register_schema(f"{topic_name}-price", Schema(json.dumps(_order(_ID, name="Price")), "AVRO"))
    outer = json.dumps(_order({"name": "price", "type": "shop.Price"}))
    schema = Schema(outer, "AVRO", [SchemaReference("shop.Price", f"{topic_name}-price", 1)])
    context = SerializationContext(topic_name, MessageField.VALUE)
    value = AvroSerializer(registry_client, schema)({"price": {"id": 4}}, context)
    decoder = avro(registry=place)
    stored = json.loads(json.dumps(decoder.pin(_place(topic_name)).stored))
    (row,) = decode(decoder, [value], _place(topic_name, stored=stored))
    assert row.decoded.price.id == 4


def test_a_value_that_is_no_record(
    decode: Decode, registry_client: SchemaRegistryClient, place: Registry, topic_name: str
) -> None:
    """Serializers write a schema that is only `bytes` without a length; other plain types as usual."""
    from klamm.pipelines.decoders.avro_records import avro

    raw = _serialize(registry_client, f"{topic_name}-b", {"type": "bytes"}, b"\x08x")
    text = _serialize(registry_client, f"{topic_name}-s", {"type": "string"}, "x")
    assert decode(avro(registry=place), [raw], _place(f"{topic_name}-b"))[0].decoded.value == b"\x08x"
    assert decode(avro(registry=place), [text], _place(f"{topic_name}-s"))[0].decoded.value == "x"


def test_a_missing_subject_is_an_error_at_the_start(place: Registry, topic_name: str, spark: SparkSession) -> None:
    """Without a schema of the subject the flow can't start, and the error says what to do."""
    from klamm.pipelines.decoders.avro_records import avro
    from klamm.pipelines.decoders.decoder import DecoderError, DecodingPlace

    with pytest.raises(DecoderError, match=f"{topic_name}-value has no schema in the registry"):
        avro(registry=place).pin(_place(topic_name))
    with pytest.raises(DecoderError, match="the source has 2 topics"):
        avro(registry=place).pin(DecodingPlace(["a", "b"]))


def test_a_registry_that_is_down_makes_no_record_bad(decode: Decode) -> None:
    """If the registry can't be asked, the task fails: Spark repeats it, and no record is called bad."""
    from pyspark.errors import PySparkException

    from klamm.pipelines.decoders.avro_records import avro
    from klamm.pipelines.decoders.schema_registry import registry

    gone = registry(f"http://127.0.0.1:{free_port()}", max_retries=0)
    with pytest.raises(PySparkException, match=r"RegistryError: schema registry .* can't be asked"):
        decode(avro(_order(_ID), registry=gone), [b"\0\0\0\0\1\2"])
