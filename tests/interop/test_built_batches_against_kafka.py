"""Tests that Apache Kafka's reader finds the rows in the batches that klamm builds from columns, with every codec."""

from __future__ import annotations

import base64
from array import array
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.interop.client_process import ClientProcess
from tests.interop.java_client import driver_command
from tests.support.examples import examples
from tests.support.scanner_loops import compiled_loops
from tests.unit.protocol.test_batch_building import Row, builder, use

from klamm.protocol import _row_encoder_py, batch_building
from klamm.protocol.compression import Compression, Compressor, compress
from klamm.protocol.record_batch import read_batch_header
from klamm.spark.sink.arrow_compression import compress_fast

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

_texts = st.none() | st.binary(max_size=200)
_rows = st.lists(
    st.tuples(
        _texts,
        _texts,
        st.none() | st.lists(st.tuples(st.text(max_size=4), _texts), max_size=3),
        st.integers(0, 2**41),
    ),
    min_size=1,
    max_size=60,
)


@pytest.fixture(scope="module")
def kafka(java_client_classpath: str) -> Iterator[ClientProcess]:
    """A JVM process that reads batches."""
    client = ClientProcess(driver_command(java_client_classpath, "BatchFilter"))
    yield client
    client.close()


@pytest.fixture(autouse=True)
def _restore_loops() -> Iterator[None]:
    module = vars(batch_building)
    imported = module["_loops"]
    yield
    module["_loops"] = imported


def _encoded(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


@pytest.mark.parametrize("form", ["in Python", "compiled"])
@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=_rows,
    compression=st.sampled_from(Compression),
    compressor=st.sampled_from([compress, compress_fast]),
    batch_size_bytes=st.integers(0, 2000),
)
def test_kafkas_reader_finds_the_rows(  # noqa: PLR0917
    kafka: ClientProcess,
    form: str,
    rows: list[Row],
    compression: Compression,
    compressor: Compressor,
    batch_size_bytes: int,
) -> None:
    """Kafka's reader finds a valid checksum and each row once, in order, in the batches of both forms of the loops."""
    use(_row_encoder_py if form == "in Python" else compiled_loops())
    found: list[Any] = []
    for batch in builder(rows).batches(
        array("i", [0] * len(rows)),
        1,
        batch_size_bytes=batch_size_bytes,
        compression=compression,
        compressor=compressor,
    ):
        assert read_batch_header(batch.data).compression is compression
        records = kafka.call("read", batch=_encoded(batch.data))
        assert [offset for offset, *_ in records] == list(range(batch.records_count))
        found += [record for _, *record in records]

    assert found == [
        [timestamp, _encoded(key), _encoded(value), [[name, _encoded(content)] for name, content in headers or ()]]
        for key, value, headers, timestamp in rows
    ]
