"""`json_schema(…)` in Spark: plain, and with the schemas of a registry."""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.schema_registry import SchemaRegistry

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from pyspark.sql import Row

    from klamm.pipelines.decoders.schema_registry import Registry

pytest.importorskip("jsonschema")

Decode = Callable[..., "list[Row]"]

_SCHEMA = {
    "title": "Order",
    "type": "object",
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "at": {"type": "string", "format": "date-time"},
        "note": {"type": ["string", "null"]},
    },
    "required": ["id"],
}


@pytest.fixture
def topic_name() -> str:
    """Returns a name that no other test uses."""
    return f"json-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def place(running_registry: SchemaRegistry) -> Registry:
    """Returns the registry as a flow declares it."""
    from klamm.pipelines.decoders.schema_registry import registry

    return registry(running_registry.url)


def _serialize(client: SchemaRegistryClient, topic: str, schema: Any, value: Any, references: Any = ()) -> bytes:
    """Returns what another program would produce."""
    from confluent_kafka.schema_registry import Schema
    from confluent_kafka.schema_registry.json_schema import JSONSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    serialize = JSONSerializer(Schema(json.dumps(schema), "JSON", list(references)), client)
    found = serialize(value, SerializationContext(topic, MessageField.VALUE))
    assert isinstance(found, bytes)
    return found


def _place(topic: str, **more: Any) -> Any:
    from klamm.pipelines.decoders.decoder import DecodingPlace

    return DecodingPlace([topic], **more)


_VALUES: list[bytes | None] = [
    b'{"id":1,"at":"2026-01-31T12:00:00Z","note":"x"}',
    b'{"id":"x"}',
    b'{"id":0}',
    b'{"note":"x"}',
    b'{"id":1,"note":5}',
    b'{"id":1',
    None,
]


def test_records_that_break_the_schema_are_bad(decode: Decode) -> None:
    """A record must be JSON, fit the types and keep the other rules of the schema."""
    from klamm.pipelines.decoders.json_schema import json_schema

    rows = decode(json_schema(_SCHEMA), _VALUES)
    assert rows[0].decoded.at.astimezone(datetime.UTC) == datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
    assert [row.bad_reason for row in rows] == [
        None,
        "field id: 'x' is not bigint",
        "the schema is broken at $.id: 0 is less than the minimum of 1",
        "field id is missing or null, but NOT NULL",
        "the schema is broken at $.note: 5 is not of type 'string', 'null'",
        "the value is not JSON",
        "the value is null (a tombstone)",
    ]
    assert [row.decoded for row in rows[1:]] == [None] * 6


def test_without_validation_only_types_count(decode: Decode) -> None:
    """Without validation, types and required fields are checked, by Spark alone."""
    from klamm.pipelines.decoders.json_schema import json_schema

    rows = decode(json_schema(_SCHEMA, validate=False), _VALUES)
    assert [row.bad_reason is None for row in rows] == [True, False, True, False, True, False, False]
    assert (rows[2].decoded.id, rows[4].decoded.note) == (0, "5")


@pytest.mark.parametrize("validate", [True, False])
def test_framed_records(
    decode: Decode, registry_client: SchemaRegistryClient, place: Registry, topic_name: str, validate: bool
) -> None:
    """The newest schema at the first start gives the columns; records without a header are bad."""
    from klamm.pipelines.decoders.json_schema import json_schema

    old = {"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}}
    first = _serialize(registry_client, topic_name, old, {"id": 1})
    registry_client.set_compatibility(f"{topic_name}-value", "NONE")
    second = _serialize(registry_client, topic_name, _SCHEMA, {"id": 2, "note": None})
    decoder = json_schema(registry=place, validate=validate)
    pinned = decoder.pin(_place(topic_name))
    assert pinned.schema.simpleString() == "struct<id:bigint,at:timestamp,note:string>"
    assert pinned.notes == (f"the schema is version 2 of {topic_name}-value",)
    stored = json.loads(json.dumps(pinned.stored))
    rows = decode(decoder, [first, second, b'{"id":3}', b"\0\0", first[:5]], _place(topic_name, stored=stored))
    assert [row.decoded and row.decoded.id for row in rows] == [1, 2, None, None, None]
    assert [row.bad_reason for row in rows] == [
        None,
        None,
        "the value begins with the byte 123, not with 0 and a schema id",
        "the value has 2 bytes, too few for a schema id",
        "the value is not JSON",
    ]


def test_a_schema_that_refers_to_another(
    decode: Decode, registry_client: SchemaRegistryClient, place: Registry, topic_name: str
) -> None:
    """References are read from the registry, for the columns and for the validation."""
    from confluent_kafka.schema_registry import Schema, SchemaReference

    from klamm.pipelines.decoders.json_schema import json_schema

    inner = {"title": "Price", "type": "object", "properties": {"cents": {"type": "integer", "minimum": 0}}}
    registry_client.register_schema(f"{topic_name}-price", Schema(json.dumps(inner), "JSON"))
    outer = {"title": "Order", "type": "object", "properties": {"price": {"$ref": "price.json"}}}
    reference = SchemaReference("price.json", f"{topic_name}-price", 1)
    value = _serialize(registry_client, topic_name, outer, {"price": {"cents": 5}}, [reference])
    good, bad = decode(json_schema(registry=place), [value, value.replace(b"5", b"-5")], _place(topic_name))
    assert good.decoded.price.cents == 5
    assert bad.bad_reason == "the schema is broken at $.price.cents: -5 is less than the minimum of 0"


@pytest.mark.parametrize(
    ("schema", "error"),
    [("{", "is not JSON"), ({"type": "object", "properties": {"a": {"type": "whole"}}}, "not a JSON Schema")],
)
def test_what_is_no_schema_is_refused(schema: Any, error: str) -> None:
    """A schema that is not JSON, or no JSON Schema, is refused with a sentence."""
    from klamm.pipelines.decoders.decoder import DecoderError, DecodingPlace
    from klamm.pipelines.decoders.json_schema import json_schema

    with pytest.raises(DecoderError, match=error):
        json_schema(schema).pin(DecodingPlace())
