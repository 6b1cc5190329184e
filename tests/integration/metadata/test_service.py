"""The metadata service on a full disk."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

DISK_FULL = """
import asyncio, resource, signal, sys
from pathlib import Path
from klamm.config.broker_config import BrokerConfig
from klamm.metadata.service import MetadataService, NewTopic
from klamm.metadata.sqlite_store import SqliteStore
from klamm.protocol.errors import ErrorCode, KafkaError

async def scenario():
    path = Path(sys.argv[1])
    service = await MetadataService.open(await SqliteStore.open(path), BrokerConfig())
    await service.start_broker({"PLAINTEXT": ("h", 9092)})
    await service.create_topics([NewTopic("before")])
    image = service.image
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    written = Path(str(path) + "-wal").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (written + 100, resource.RLIM_INFINITY))
    for _ in range(2):
        try:
            await service.create_topics([NewTopic("during", partitions=100)])
        except KafkaError as error:
            assert error.code == ErrorCode.KAFKA_STORAGE_ERROR, error
        else:
            raise AssertionError("the disk was full")
        assert service.image is image
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await service.create_topics([NewTopic("after")])
    await service.close()
    service = await MetadataService.open(await SqliteStore.open(path), BrokerConfig())
    assert service.image.topics.keys() == {"before", "after"}
    await service.close()

asyncio.run(scenario())
"""


def test_a_full_disk_fails_the_change_and_nothing_else(tmp_path: Path) -> None:
    """On a full disk a change fails with KAFKA_STORAGE_ERROR and the metadata image stays the same; with free space
    again, changes succeed."""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    subprocess.run([sys.executable, "-c", DISK_FULL, str(tmp_path / "s")], check=True)
