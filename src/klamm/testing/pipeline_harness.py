"""Runs a pipeline in a test: its own broker, records in, records out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from klamm.errors import KlammError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from klamm.pipelines import Pipeline
    from klamm.pipelines.status.flow_status import FlowStatus

__all__ = ["PipelineFailed", "PipelineHarness", "WrittenRecord"]

_TIMEOUT_S: Final = 30.0


class PipelineFailed(KlammError):
    """A flow of the pipeline under test has failed."""


class WrittenRecord(NamedTuple):
    """A record of a topic."""

    key: bytes | None
    value: bytes | None
    headers: Mapping[str, bytes | None]

    @property
    def json(self) -> Any:
        """The value, parsed as JSON; None for a record without a value."""
        return None if self.value is None else json.loads(self.value)


class PipelineHarness:
    """A pipeline with a broker and a folder of checkpoints for one test."""

    def __init__(
        self,
        spark: SparkSession,
        pipeline: Pipeline | str | Path,
        bootstrap_servers: str,
        folder: Path,
        environment: str | None = None,
    ) -> None:
        """Takes a pipeline, or the file that declares it, and the environment in which it runs.

        Raises `PipelineError` for a wrong file or environment."""
        from klamm.pipelines import Pipeline
        from klamm.pipelines.declare.pipeline_file import load_pipeline
        from klamm.pipelines.run.place import Place

        self.pipeline: Final = pipeline if isinstance(pipeline, Pipeline) else load_pipeline(str(pipeline))
        self.bootstrap_servers: Final = bootstrap_servers
        self._spark = spark
        self._place = Place.at(
            self.pipeline.name,
            bootstrap_servers=bootstrap_servers,
            checkpoints=str(folder / "checkpoints"),
            environment=environment,
            files_below=str(folder / "files"),
        )

    def produce(self, topic: str, values: Iterable[Any], *, key: str | bytes | None = None) -> None:
        """Writes records, and waits until the broker has them. Bytes and texts are written as they are, None is a
        tombstone, other values become JSON. Raises `KlammError` if a record is not written."""
        from confluent_kafka import Producer

        # Without idempotence, a batch that a new partition refuses for a moment is sent again behind later ones.
        settings = {"bootstrap.servers": self.bootstrap_servers, "linger.ms": 0, "enable.idempotence": True}
        producer = Producer(settings)
        errors: list[Any] = []
        for value in values:
            text = value if isinstance(value, bytes | str | None) else json.dumps(value)
            while True:
                try:
                    producer.produce(
                        topic, text, key, on_delivery=lambda error, _: errors.append(error) if error else None
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
        if producer.flush(_TIMEOUT_S) or errors:
            raise KlammError(f"records were not written to {topic}: {errors or 'no answer'}")

    def run(self, *flows: str) -> None:
        """Runs these flows, by default all, until they have read all records. The next run continues after them.

        The session has the settings of the pipeline meanwhile. Raises `PipelineFailed` if a flow fails."""
        from klamm.pipelines.run.pipeline_run import PipelineRun, chosen_flows
        from klamm.testing.shared_session import settings_of_run, share_modules

        share_modules(self._spark)
        with settings_of_run(self._spark, self.pipeline.conf):
            run = PipelineRun(self._spark, self.pipeline, self._place, chosen_flows(self.pipeline, flows), once=True)
            has_succeeded = run.run()
        if not has_succeeded:
            raise PipelineFailed("; ".join(flow.message for flow in run.flows if flow.message is not None))

    def records(self, topic: str) -> list[WrittenRecord]:
        """Returns the committed records of a topic, those of a partition in their order; none if there is no topic.

        Raises `KlammError` if the broker does not answer."""
        from confluent_kafka import Consumer, KafkaError, TopicPartition

        self._wait_for_markers()
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "group.id": "klamm-testing",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        try:
            described = consumer.list_topics(timeout=_TIMEOUT_S).topics.get(topic)
            open_partitions = set() if described is None or described.error is not None else set(described.partitions)
            consumer.assign([TopicPartition(topic, partition, 0) for partition in open_partitions])
            found = []
            while open_partitions:
                message = consumer.poll(_TIMEOUT_S)
                if message is None:
                    raise KlammError(f"no answer from the broker about {topic}")
                error = message.error()
                if error is None:
                    headers = cast("list[tuple[str, Any]]", message.headers() or [])
                    found.append(WrittenRecord(message.key(), message.value(), dict(headers)))
                elif error.code() == KafkaError._PARTITION_EOF:
                    open_partitions.discard(message.partition() or 0)
                else:
                    raise KlammError(f"{topic} can't be read: {error}")
            return found
        finally:
            consumer.close()

    def _wait_for_markers(self) -> None:
        """Waits until the records of the last transactions are visible to readers of committed records."""
        from klamm.client.cluster import Cluster
        from klamm.client.config import ClientConfig
        from klamm.client.transaction_listing import TransactionsClient

        cluster = Cluster(ClientConfig.from_mapping({"bootstrap.servers": self.bootstrap_servers}))
        with closing(TransactionsClient(cluster)) as client:
            if not client.wait_for_markers(_TIMEOUT_S):
                raise KlammError("the markers of a transaction are not written")

    def files(self, flow: str) -> Path:
        """Returns the folder to which a flow with `to_files`, or `to_format` with a path, writes in this test.

        Raises `KlammError` for a flow with another sink."""
        from klamm.pipelines.declare.sinks import ToFiles, ToFormat

        sink = self.pipeline.flows[flow].sink
        path = self._place.files_path(sink) if isinstance(sink, ToFiles | ToFormat) else None
        if path is None:
            raise KlammError(f"the flow {flow} writes to no path")
        return Path(path)

    def dead_letters(self, flow: str) -> list[WrittenRecord]:
        """Returns the dead letters of a flow; their headers say why and from where."""
        return self.records(self._place.dead_letters_topic(self.pipeline.flows[flow]))

    def status(self, flow: str) -> FlowStatus:
        """Returns the status of a flow after its last run. Raises `KlammError` if it has not run."""
        from klamm.pipelines.status.flow_status import read_status

        status = read_status(self._place.flow_folder(flow))
        if status is None:
            raise KlammError(f"the flow {flow} has not run")
        return status
