"""Tests which log directories AlterReplicaLogDirs accepts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.event_loop import in_loop
from tests.support.steps import finish

from klamm.broker.handlers import alter_replica_log_dirs, describe_log_dirs
from klamm.config.broker_config import BrokerConfig
from klamm.metadata.service import NewTopic
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from klamm.protocol.schema.describe_log_dirs_request import DescribeLogDirsRequest
from klamm.protocol.types import Millis
from klamm.storage.directory.log_directory import LogDirectory

if TYPE_CHECKING:
    from tests.unit.broker.handlers.conftest import ServeMetadata


@pytest.fixture
def relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the relative path of a folder."""
    monkeypatch.chdir(tmp_path)
    folder = Path("data")
    folder.mkdir()
    return folder


@in_loop
async def test_the_directory_that_is_described_is_accepted(serve_metadata: ServeMetadata, relative: Path) -> None:
    """With a relative `log.dirs`, as by default, a client knows the absolute path from DescribeLogDirs. The relative
    path is refused, as in Kafka. A topic without partitions is not answered."""
    async with serve_metadata(BrokerConfig()) as broker:
        await broker.metadata.create_topics([NewTopic("t", partitions=1)])
        context = broker.request(2)
        context.broker.log_directory = LogDirectory(relative, clock=lambda: Millis(0))
        (folder,) = finish(describe_log_dirs.handle(context, DescribeLogDirsRequest(topics=None))).results

        def codes(path: str) -> dict[str, dict[int, int]]:
            topics = [
                AlterReplicaLogDirTopic(name="t", partitions=[0, 1]),
                AlterReplicaLogDirTopic(name="u", partitions=[]),
            ]
            request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)])
            response = finish(alter_replica_log_dirs.handle(context, request))
            return {
                topic.topic_name: {each.partition_index: each.error_code for each in topic.partitions}
                for topic in response.results
            }

        assert codes(folder.log_dir) == {"t": {0: ErrorCode.NONE, 1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}}
        assert codes(str(relative)) == {"t": dict.fromkeys((0, 1), ErrorCode.LOG_DIR_NOT_FOUND)}
