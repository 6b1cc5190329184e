"""A broker that is killed between or during requests keeps all acknowledged changes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from klamm.config.broker_config import BrokerConfig
from klamm.metadata.service import MetadataService
from klamm.metadata.sqlite_store import SqliteStore

PARTITIONS = 20
# Creates topics until it is killed, and prints each topic after its acknowledgement.
CREATOR = f"""
import asyncio, sys
from pathlib import Path
from klamm.config.broker_config import BrokerConfig
from klamm.metadata.service import MetadataService, NewTopic
from klamm.metadata.sqlite_store import SqliteStore

async def create_for_ever():
    service = await MetadataService.open(await SqliteStore.open(Path(sys.argv[1])), BrokerConfig())
    await service.start_broker({{"PLAINTEXT": ("h", 9092)}})
    first = len(service.image.topics)
    for number in range(first, 1_000_000):
        await service.create_topics([NewTopic(f"t{{number}}", partitions={PARTITIONS})])
        block = await service.producer_ids.allocate()
        print(number, block.stop, service.image.topics[f"t{{number}}"].topic_id.hex(), flush=True)

asyncio.run(create_for_ever())
"""


async def _inspect(path: Path, acknowledged: dict[int, str], producer_ids: int, life: int) -> None:
    service = await MetadataService.open(await SqliteStore.open(path), BrokerConfig())
    topics = service.image.topics
    for number, topic_id in acknowledged.items():
        assert topics[f"t{number}"].topic_id.hex() == topic_id
    # The last request may be complete without a received answer, but it is never half done.
    assert len(acknowledged) <= len(topics) <= len(acknowledged) + life
    assert all(len(topic.partitions) == PARTITIONS for topic in topics.values())
    assert service.image.next_producer_id >= producer_ids
    # Each start after the topic's creation raises the leader epoch by one.
    assert topics["t0"].partitions[0].leader_epoch == life - 1
    await service.close()


def test_kill_minus_nine_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """After several kills every acknowledged topic exists with its id and all its partitions."""
    path = tmp_path / "s"
    acknowledged: dict[int, str] = {}
    producer_ids = 0
    for life in range(1, 4):
        process = subprocess.Popen([sys.executable, "-c", CREATOR, str(path)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for _ in range(7 * life):
            number, stop, topic_id = process.stdout.readline().split()
            acknowledged[int(number)] = topic_id
            producer_ids = int(stop)
        os.kill(process.pid, signal.SIGKILL)
        for line in process.stdout:
            number, stop, topic_id = line.split()
            acknowledged[int(number)] = topic_id
            producer_ids = int(stop)
        process.stdout.close()
        process.wait()
        asyncio.run(_inspect(path, acknowledged, producer_ids, life))
