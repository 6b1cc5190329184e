"""DescribeLogDirs: returns the disk usage of each partition, and the partitions that are offline.

klamm has one data folder, and it stays online when a partition in it goes offline. An offline partition is therefore
returned as a log directory of its own, with KAFKA_STORAGE_ERROR, as Kafka returns a failed data folder.

Versions 1 to 5: v2 flexible, v3 top-level error, v4 total and usable bytes of the volume (KIP-827), v5 cordoned
folders.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from klamm.broker.time_slices import Work, free_later, sorted_in_steps
from klamm.metadata.cordoned import is_cordoned
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.describe_log_dirs_request import DescribeLogDirsRequest
from klamm.protocol.schema.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]


def handle(context: RequestContext, request: DescribeLogDirsRequest) -> Work[DescribeLogDirsResponse]:
    """Describes the one data folder. A null list of topics requests all."""
    wanted: set[tuple[str, int]] | None = None
    if request.topics is not None:
        wanted = set()
        for topic in request.topics:
            for index in topic.partitions:
                wanted.add((topic.topic, index))
                yield None
            yield None
    registry = context.broker.partitions
    by_name = registry.by_name
    topics = []
    offline_folders = []
    for name in (yield from sorted_in_steps(list(by_name))):
        led = by_name.get(name)
        if led is None:  # deleted in the meantime
            continue
        partitions = []
        for index in range(len(led.partitions)):
            yield None
            log = registry.unled.find(led, index)
            if log is None:
                continue
            if log.is_offline:
                folder = str(log.directory.absolute())
                offline_folders.append(DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=folder))
                continue
            if wanted is None or (name, index) in wanted:
                partitions.append(DescribeLogDirsPartition(partition_index=index, partition_size=log.size_bytes))
        if partitions:
            topics.append(DescribeLogDirsTopic(name=name, partitions=partitions))
        yield None
    free_later(wanted)
    directory = context.broker.log_directory.path
    volume = os.statvfs(directory)
    return DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResult(
                log_dir=str(directory.absolute()),
                topics=topics,
                total_bytes=volume.f_blocks * volume.f_frsize,
                usable_bytes=volume.f_bavail * volume.f_frsize,
                is_cordoned=is_cordoned(context.broker.metadata.image, context.broker.node_id),
            ),
            *offline_folders,
        ]
    )


def error_response(
    request: DescribeLogDirsRequest, version: int, code: ErrorCode, message: str | None = None
) -> DescribeLogDirsResponse:
    """Returns a response with this error."""
    return DescribeLogDirsResponse(error_code=code)
