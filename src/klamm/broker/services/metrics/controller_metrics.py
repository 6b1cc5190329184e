"""The metrics of the controller, with the names that Prometheus' JMX exporter gives to Kafka's.

Source: `QuorumControllerMetrics` and `ControllerMetadataMetrics` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from klamm.broker.services.metrics.metrics import Figure
from klamm.broker.time_slices import Work, finish_in_steps

if TYPE_CHECKING:
    from klamm.metadata.image import MetadataImage
    from klamm.protocol.types import BrokerId

__all__ = ["gather_controller_figures"]

_PREFIX: Final = "kafka_controller_kafkacontroller_"


async def gather_controller_figures(image: MetadataImage, node_id: BrokerId) -> Sequence[Figure]:
    """Counts the partitions of the whole cluster that no live broker leads.

    Only the controller counts them, so that the sum over all brokers is right: the other brokers report 0.
    """
    is_controller = image.controller_id == node_id
    offline = await finish_in_steps(_count_without_leader(image)) if is_controller else 0
    figures = [
        ("activecontrollercount", "1 on the broker that is the controller, 0 on the others.", is_controller),
        ("offlinepartitionscount", "Partitions of the cluster without a leader; 0 on other brokers.", offline),
    ]
    return [Figure(f"{_PREFIX}{name}", text, (), [((), float(value))]) for name, text, value in figures]


def _count_without_leader(image: MetadataImage) -> Work[int]:
    # A partition with one replica keeps its leader in the metadata while that broker is away.
    count = 0
    for partition in (partition for topic in image.topics.values() for partition in topic.partitions):
        count += partition.leader not in image.brokers
        yield None
    return count
