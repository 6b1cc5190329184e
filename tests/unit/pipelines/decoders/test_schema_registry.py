"""How a registry is declared."""

from __future__ import annotations

import pickle
from contextlib import closing

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("confluent_kafka.schema_registry")

from klamm.pipelines.decoders.decoder import DecoderError
from klamm.pipelines.decoders.schema_registry import SchemaLookup, UnknownSchema, registry


def test_a_registry_hides_its_options_and_can_be_sent_to_workers() -> None:
    """Passwords are not in the text of a registry; it can be pickled, and equal declarations are equal."""
    found = registry("http://localhost:1", basic_auth_user_info="me:secret", timeout=3)
    assert "secret" not in repr(found)
    assert pickle.loads(pickle.dumps(found)) == found
    assert dict(found.options) == {"basic.auth.user.info": "me:secret", "timeout": 3}
    assert registry("http://localhost:1", timeout=3, basic_auth_user_info="me:secret") == found


@pytest.mark.parametrize(
    ("url", "options", "error"),
    [
        ("localhost:8081", {}, "Invalid url"),
        ("http://localhost:1", {"tiemout": 3}, "tiemout"),
        ("http://localhost:1", {"basic_auth_user_info": "me"}, "username"),
        ("https://localhost:1", {"ssl_ca_location": "/missing/ca.pem"}, "No such file"),
    ],
)
def test_a_wrong_registry_is_refused_where_it_is_declared(url: str, options: dict[str, str], error: str) -> None:
    """A wrong URL or option is refused with a sentence."""
    with pytest.raises(DecoderError, match=error):
        registry(url, **options)


def test_an_id_that_no_schema_has_is_not_asked_for() -> None:
    """An id above 2**31 - 1 is unknown without a question: a registry answers with an error that does not speak of a
    schema, and such an error fails a task."""
    with closing(SchemaLookup(registry("http://localhost:1"))) as schemas:
        for schema_id in (2**31, 2**32 - 1):
            with pytest.raises(UnknownSchema, match=f"schema id {schema_id} is not in the registry"):
                schemas.by_id(schema_id)
