"""AlterReplicaLogDirs: moves partitions to another log directory of their broker (KIP-113).

Versions 1 to 2: v2 flexible. A klamm broker has one log directory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.broker.time_slices import Work
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.alter_replica_log_dirs_request import AlterReplicaLogDirsRequest
from klamm.protocol.schema.alter_replica_log_dirs_response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]


def handle(context: RequestContext, request: AlterReplicaLogDirsRequest) -> Work[AlterReplicaLogDirsResponse]:
    """Accepts the broker's own log directory, by its absolute path, as DescribeLogDirs returns it.

    Any other directory gets LOG_DIR_NOT_FOUND, whether the partition exists or not.
    """
    image = context.broker.metadata.image
    own = str(context.broker.log_directory.path.absolute())
    codes: dict[str, dict[int, ErrorCode]] = {}
    for folder in request.dirs:
        for wanted in folder.topics:
            topic = image.topics.get(wanted.name)
            count = 0 if topic is None else len(topic.partitions)
            for index in wanted.partitions:
                of_topic = codes.setdefault(wanted.name, {})
                if folder.path != own:
                    of_topic[index] = ErrorCode.LOG_DIR_NOT_FOUND
                elif 0 <= index < count:
                    of_topic[index] = ErrorCode.NONE
                else:
                    of_topic[index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                yield None
            yield None
        yield None
    response = AlterReplicaLogDirsResponse()
    for name, of_topic in codes.items():
        result = AlterReplicaLogDirTopicResult(topic_name=name)
        response.results.append(result)
        for index, code in of_topic.items():
            result.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code))
            yield None
        yield None
    return response


def error_response(
    request: AlterReplicaLogDirsRequest, version: int, code: ErrorCode, message: str | None = None
) -> AlterReplicaLogDirsResponse:
    """Returns a response with this error for every partition."""
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                    for index in topic.partitions
                ],
            )
            for folder in request.dirs
            for topic in folder.topics
        ]
    )
