"""Provides one schema registry for all tests of decoders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.schema_registry import RegistryUnavailable, SchemaRegistry
from tests.support.toolchains import toolchain_is_missing

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from pyspark.sql import Row, SparkSession

    from klamm.pipelines.decoders.decoder import Decoder, DecodingPlace


@pytest.fixture(scope="session")
def running_registry() -> Iterator[SchemaRegistry]:
    """Runs the registry; skips the test if it is not available here."""
    pytest.importorskip("confluent_kafka.schema_registry")
    try:
        with SchemaRegistry() as registry:
            yield registry
    except RegistryUnavailable as error:
        toolchain_is_missing("java", str(error))


@pytest.fixture(scope="session")
def registry_client(running_registry: SchemaRegistry) -> Iterator[SchemaRegistryClient]:
    """Yields confluent-kafka's client of the registry, with which other programs register schemas."""
    from confluent_kafka.schema_registry import SchemaRegistryClient

    # Without a timeout the client waits forever for an answer that a busy registry does not send.
    client = SchemaRegistryClient({"url": running_registry.url, "timeout": 20})
    yield client
    client.close()


@pytest.fixture
def decode(spark: SparkSession) -> Callable[..., list[Row]]:
    """Returns a function that decodes values: `decode(decoder, values, place, tombstones)`; rows are in their order."""
    from klamm.pipelines.decoders.decoder import DecodingPlace as Place

    def run(
        decoder: Decoder, values: list[bytes | None], place: DecodingPlace | None = None, tombstones: Any = "bad"
    ) -> list[Row]:
        records = spark.createDataFrame(list(enumerate(values)), "n int, value binary")
        decoded = decoder.pin(place or Place()).decode(records, tombstones)
        return sorted(decoded.collect(), key=lambda row: int(row.n))

    return run
