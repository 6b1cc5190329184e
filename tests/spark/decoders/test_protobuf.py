"""`protobuf(…)` in Spark: plain, and with the schemas of a registry."""

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

pytest.importorskip("google.protobuf")

from tests.support.protobuf_schemas import message_class, proto_file

Decode = Callable[..., "list[Row]"]


@pytest.fixture
def topic_name() -> str:
    """Returns a name that no other test uses; it is a package of Protobuf, too."""
    return f"p{uuid.uuid4().hex[:8]}"


@pytest.fixture
def place(running_registry: SchemaRegistry) -> Registry:
    """Returns the registry as a flow declares it."""
    from klamm.pipelines.decoders.schema_registry import registry

    return registry(running_registry.url)


def _serialize(client: SchemaRegistryClient, topic: str, message: Any) -> bytes:
    """Returns what another program would produce."""
    from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    found = ProtobufSerializer(type(message), client)(message, SerializationContext(topic, MessageField.VALUE))
    assert isinstance(found, bytes)
    return found


def _place(topic: str, **more: Any) -> Any:
    from klamm.pipelines.decoders.decoder import DecodingPlace

    return DecodingPlace([topic], **more)


def test_messages_reach_spark(decode: Decode) -> None:
    """Values of all kinds of types arrive in Spark as they were set."""
    from klamm.pipelines.decoders.protobuf_messages import protobuf

    file = proto_file(
        "order.proto",
        {
            "Line": {"name": "string", "count": "uint32"},
            "Order": {
                "id": "uint64",
                "at": ".google.protobuf.Timestamp",
                "took": ".google.protobuf.Duration",
                "lines": "repeated .shop.Line",
                "sizes": "map int32 .shop.Line",
                "note": ".google.protobuf.StringValue",
                "kind": "#.shop.Kind",
            },
        },
        imports=tuple(f"google/protobuf/{name}.proto" for name in ("timestamp", "duration", "wrappers")),
        enums={"Kind": ("UNKNOWN", "BIG")},
    )
    order = message_class("shop.Order", file)
    message = order(id=2**64 - 1, lines=[{"name": "x", "count": 2**32 - 1}], sizes={7: {"name": "y"}}, kind="BIG")
    message.at.FromDatetime(datetime.datetime(2026, 1, 31, 12, 0, 0, 7))
    message.took.FromTimedelta(datetime.timedelta(seconds=-1))
    good, bad, tombstone = decode(protobuf(order), [message.SerializeToString(), b"\xff", None])
    found = good.decoded.asDict(recursive=True)
    assert found.pop("at").astimezone(datetime.UTC) == datetime.datetime(2026, 1, 31, 12, 0, 0, 7, datetime.UTC)
    assert found == {
        "id": 2**64 - 1,
        "took": datetime.timedelta(seconds=-1),
        "lines": [{"name": "x", "count": 2**32 - 1}],
        "sizes": {7: {"name": "y", "count": 0}},
        "note": None,
        "kind": "BIG",
    }
    assert bad.decoded is None
    assert bad.bad_reason.startswith("the value is no Protobuf message shop.Order")
    assert (tombstone.decoded, tombstone.bad_reason) == (None, "the value is null (a tombstone)")


def test_the_message_of_the_newest_schema_is_pinned(
    decode: Decode, registry_client: SchemaRegistryClient, place: Registry, topic_name: str
) -> None:
    """The newest schema at the first start is pinned; records of other versions are read by field numbers."""
    from klamm.pipelines.decoders.protobuf_messages import protobuf

    def order(**fields: str) -> Any:
        return message_class(
            f"{topic_name}.Order", proto_file(f"{topic_name}.proto", {"Order": fields}, package=topic_name)
        )

    old = _serialize(registry_client, topic_name, order(id="int32")(id=1))
    new = _serialize(registry_client, topic_name, order(id="int32", note="string")(id=2, note="x"))
    decoder = protobuf(registry=place)
    pinned = decoder.pin(_place(topic_name))
    assert pinned.schema.simpleString() == "struct<id:int,note:string>"
    assert pinned.notes == (f"the message is {topic_name}.Order of version 2 of {topic_name}-value",)

    newest = _serialize(registry_client, topic_name, order(id="int32", note="string", more="int32")(id=3, more=5))
    stored = json.loads(json.dumps(pinned.stored))
    rows = decode(decoder, [old, new, newest], _place(topic_name, stored=stored))
    assert [tuple(row.decoded) for row in rows] == [(1, ""), (2, "x"), (3, "")]


def test_bad_records_have_the_reason(
    decode: Decode, registry_client: SchemaRegistryClient, place: Registry, topic_name: str
) -> None:
    """Another message of the same file, another kind of schema and broken framing each have their reason."""
    from confluent_kafka.schema_registry import Schema

    from klamm.pipelines.decoders.protobuf_messages import protobuf

    file = proto_file(f"{topic_name}.proto", {"Other": {"id": "int32"}, "Order": {"id": "int32"}}, package=topic_name)
    order, other = (message_class(f"{topic_name}.{name}", file) for name in ("Order", "Other"))
    good = _serialize(registry_client, topic_name, order(id=1))
    wrong = _serialize(registry_client, topic_name, other(id=1))
    schema_id = int.from_bytes(good[1:5], "big")
    avro_id = registry_client.register_schema(f"{topic_name}-avro", Schema('"string"', "AVRO"))
    header = b"\0" + schema_id.to_bytes(4, "big")
    rows = decode(
        protobuf(order, registry=place),
        [
            good,
            wrong,
            header,
            header + b"\x02\x0a",
            header + b"\x01",
            header + b"\x02\x02\xff",
            b"\0" + (10**9).to_bytes(4, "big") + good[5:],
            b"\0" + avro_id.to_bytes(4, "big") + good[5:],
            good[5:],
        ],
        _place(topic_name),
    )
    assert rows[0].decoded.id == 1
    reasons = [row.bad_reason for row in rows]
    assert reasons[:5] == [
        None,
        f"the record is a message {topic_name}.Other (schema id {schema_id}), not {topic_name}.Order",
        "the value ends before the place of its message does",
        f"schema id {schema_id} has no message at the place [5]",
        "the value has a place of -1 levels for its message",
    ]
    assert reasons[5].startswith(f"the value is no Protobuf message {topic_name}.Order")
    assert reasons[6:8] == [
        "schema id 1000000000 is not in the registry",
        f"schema id {avro_id} is of the kind AVRO, not PROTOBUF",
    ]
    assert reasons[8].startswith("the value ")


def test_a_schema_that_imports_another(
    decode: Decode, registry_client: SchemaRegistryClient, place: Registry, topic_name: str
) -> None:
    """Imports are read from the registry, those of Protobuf itself from the installed package."""
    from klamm.pipelines.decoders.protobuf_messages import protobuf

    inner = proto_file(f"{topic_name}-inner.proto", {"Inner": {"id": "int32"}}, package=topic_name)
    outer = proto_file(
        f"{topic_name}.proto",
        {"Outer": {"inner": f".{topic_name}.Inner", "at": ".google.protobuf.Timestamp"}},
        package=topic_name,
        imports=(inner.name, "google/protobuf/timestamp.proto"),
    )
    message = message_class(f"{topic_name}.Outer", inner, outer)
    value = _serialize(registry_client, topic_name, message(inner={"id": 5}))
    (row,) = decode(protobuf(registry=place), [value], _place(topic_name))
    assert row.decoded.asDict(recursive=True) == {"inner": {"id": 5}, "at": None}


def test_a_schema_registered_as_text(
    decode: Decode, registry_client: SchemaRegistryClient, place: Registry, topic_name: str
) -> None:
    """Java's serializers register the text of a .proto file: the record's message is checked by it."""
    from confluent_kafka.schema_registry import Schema

    from klamm.pipelines.decoders.decoder import DecoderError
    from klamm.pipelines.decoders.protobuf_messages import protobuf

    text = f'syntax = "proto3"; package {topic_name}; message Other {{ }} message Order {{ int32 id = 1; }}'
    schema_id = registry_client.register_schema(f"{topic_name}-value", Schema(text, "PROTOBUF"))
    order = message_class(
        f"{topic_name}.Order", proto_file(f"{topic_name}.proto", {"Order": {"id": "int32"}}, package=topic_name)
    )
    header = b"\0" + schema_id.to_bytes(4, "big")
    rows = decode(protobuf(order, registry=place), [header + b"\x02\x02\x08\x07", header + b"\x00\x08\x07"])
    assert rows[0].decoded.id == 7
    assert rows[1].bad_reason.startswith(f"the record is a message {topic_name}.Other")
    # This registry makes no descriptor of such a text, so it can't give the reader's message.
    with pytest.raises(DecoderError, match=r"only as text\. Give the message's class"):
        protobuf(registry=place, message="Order").pin(_place(topic_name))
