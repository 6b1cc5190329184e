"""How workers reach a registry: passwords, TLS, and what a registry that fails does to records."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.certificates import Authority, OpensslUnavailable
from tests.support.guarded_registry import GuardedRegistry
from tests.support.schema_registry import SchemaRegistry
from tests.support.toolchains import toolchain_is_missing

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from pyspark.sql import Row

Decode = Callable[..., "list[Row]"]

_SCHEMA = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]})


@pytest.fixture
def values(registry_client: SchemaRegistryClient) -> list[bytes]:
    """Returns a record whose schema is in the registry, and one whose schema is not."""
    from confluent_kafka.schema_registry import Schema

    schema_id = registry_client.register_schema(f"r-{uuid.uuid4().hex[:8]}-value", Schema(_SCHEMA, "AVRO"))
    return [b"\0" + number.to_bytes(4, "big") + b"\x0e" for number in (schema_id, 10**9)]


def _decode(decode: Decode, values: list[bytes], url: str, **options: Any) -> list[Any]:
    from klamm.pipelines.decoders.avro_records import avro
    from klamm.pipelines.decoders.schema_registry import registry

    rows = decode(avro(_SCHEMA, registry=registry(url, max_retries=0, **options)), values)
    return [row.decoded.id if row.decoded else row.bad_reason for row in rows]


_EXPECTED = [7, "schema id 1000000000 is not in the registry"]


def test_a_registry_with_tls_and_a_password(
    decode: Decode, running_registry: SchemaRegistry, values: list[bytes], tmp_path: Path
) -> None:
    """Workers use the authority and the password of the declaration; with a wrong password the task fails."""
    from pyspark.errors import PySparkException

    try:
        authority = Authority(tmp_path)
    except OpensslUnavailable as error:
        toolchain_is_missing("openssl", str(error))
    certificate = authority.issue("registry", ["IP:127.0.0.1"])
    with GuardedRegistry(running_registry.url, certificate=certificate, user_info="me:secret") as door:
        ca = str(authority.certificate)
        found = _decode(decode, values, door.url, ssl_ca_location=ca, basic_auth_user_info="me:secret")
        assert found == _EXPECTED
        with pytest.raises(PySparkException, match="Unauthorized"):
            _decode(decode, values, door.url, ssl_ca_location=ca, basic_auth_user_info="me:wrong")
        with pytest.raises(PySparkException, match="CERTIFICATE_VERIFY_FAILED"):
            _decode(decode, values, door.url, basic_auth_user_info="me:secret")


def test_a_task_is_repeated_until_the_registry_is_back(
    decode: Decode, running_registry: SchemaRegistry, values: list[bytes]
) -> None:
    """While the registry fails, tasks fail; the task that Spark repeats has the records, and none of them is bad."""
    with GuardedRegistry(running_registry.url) as door:
        door.failures_left = 2
        assert _decode(decode, values, door.url) == _EXPECTED
        assert door.failures_left == 0


def test_ids_that_do_not_exist_do_not_stop_a_task(running_registry: SchemaRegistry, values: list[bytes]) -> None:
    """Of many unknown ids, five in a minute are waited for; an unknown id is asked for again after ten seconds. A known
    id counts at once."""
    from klamm.pipelines.decoders.schema_registry import SchemaLookup, UnknownSchema, registry

    known, unknown, now = int.from_bytes(values[0][1:5], "big"), range(10**9, 10**9 + 50), 0.0

    def sleep(duration_s: float) -> None:
        nonlocal now
        now += duration_s

    with (
        GuardedRegistry(running_registry.url) as door,
        closing(SchemaLookup(registry(door.url), clock=lambda: now, sleep=sleep)) as schemas,
    ):

        def ask_for_all() -> int:
            before = door.requests
            for schema_id in unknown:
                with pytest.raises(UnknownSchema, match=f"schema id {schema_id} is not in the registry"):
                    schemas.by_id(schema_id)
            return door.requests - before

        assert ask_for_all() == 50 + 5 * 3
        assert now == 5 * 1.5
        assert ask_for_all() == 0
        sleep(10)
        assert ask_for_all() == 50
        assert schemas.by_id(known).kind == "AVRO"
        sleep(60)
        assert ask_for_all() == 50 + 5 * 3


def test_a_schema_is_asked_for_once_in_each_worker(
    decode: Decode, running_registry: SchemaRegistry, values: list[bytes]
) -> None:
    """However many records have a schema, a worker asks for it once."""
    with GuardedRegistry(running_registry.url) as door:
        assert _decode(decode, values[:1] * 500, door.url) == [7] * 500
        workers = 8
        assert 1 <= door.requests <= workers
        before = door.requests
        assert _decode(decode, values[:1] * 500, door.url) == [7] * 500
        assert door.requests <= before + workers
