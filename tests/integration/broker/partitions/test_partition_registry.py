"""The partition registry follows the metadata in steps."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from tests.support.log_folder import append

from klamm.broker.handlers.shared.config_resources import AlterRequest, alter_resources
from klamm.broker.partitions import partition_registry as partitions_module
from klamm.broker.server import BrokerServer
from klamm.config.alteration import Alteration, Operation
from klamm.metadata.image import ResourceType
from klamm.metadata.service import NewTopic
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.storage.checkpoints import RECOVERY_POINT_FILE
from klamm.testing import Broker

MANY = 300


@pytest.fixture
def broker() -> Iterator[Broker]:
    """Runs a broker for one test."""
    with Broker() as broker:
        yield broker


def folders(broker: Broker, topic: str) -> list[str]:
    """Returns the names of the topic's log folders, without those that are marked for deletion."""
    return [path.name for path in broker.data_dir.glob(f"{topic}-*") if not path.name.endswith("-delete")]


def test_others_have_their_turn_while_many_logs_are_made(broker: Broker) -> None:
    """Other tasks run while many logs are created. A partition whose log does not exist yet gets
    NOT_LEADER_OR_FOLLOWER, which clients retry."""

    async def create(server: BrokerServer) -> None:
        assert server.context is not None
        partitions = server.context.partitions
        await server.context.metadata.create_topics([NewTopic("many", partitions=MANY)])
        with pytest.raises(KafkaError) as not_yet:
            partitions.get("many", MANY - 1)
        assert not_yet.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        turns = 0
        while partitions.by_name["many"].partitions[-1] is None:
            turns += 1
            await asyncio.sleep(0)
        assert turns > 1
        await partitions.settled()

    broker.run_in_broker(create)
    assert len(folders(broker, "many")) == MANY


def test_others_have_their_turn_while_the_defaults_of_all_logs_change(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other tasks run while the defaults of all logs change; when the change is acknowledged, every log uses the new
    value."""

    async def change(server: BrokerServer) -> None:
        assert server.context is not None
        metadata, partitions = server.context.metadata, server.context.partitions
        await metadata.create_topics([NewTopic("many", partitions=MANY), NewTopic("other", partitions=1)])
        await partitions.settled()
        monkeypatch.setattr(partitions_module, "STEP_S", 0)
        alteration = Alteration("log.retention.bytes", Operation.SET, "12345")
        wish = AlterRequest(ResourceType.BROKER, "", [alteration], replaces=False)
        altering = asyncio.ensure_future(alter_resources(server.context, [wish], validate_only=False))
        seen = set()
        while not altering.done():
            await asyncio.sleep(0)
            led = [each for topic in partitions.by_name.values() for each in topic.partitions if each is not None]
            seen.add(sum(partition.log.config.retention_bytes == 12345 for partition in led))
        assert altering.result() == [None]
        assert seen >= {MANY // 3, MANY // 2, MANY + 1}

    broker.run_in_broker(change)


def test_a_topic_that_is_deleted_while_it_is_made_leaves_nothing(broker: Broker) -> None:
    """A topic that is deleted during its creation leaves no folders; a new topic of the same name has all its
    partitions."""

    async def change(server: BrokerServer) -> None:
        assert server.context is not None
        metadata, partitions = server.context.metadata, server.context.partitions
        await metadata.create_topics([NewTopic("brief", partitions=MANY)])
        topic_id = metadata.image.topics["brief"].topic_id
        await metadata.delete_topics({topic_id: "brief"})
        await metadata.create_topics([NewTopic("gone", partitions=MANY)])
        await metadata.delete_topics({metadata.image.topics["gone"].topic_id: "gone"})
        await metadata.create_topics([NewTopic("brief", partitions=3)])
        await partitions.settled()
        topic = metadata.image.topics["brief"]
        assert topic.topic_id != topic_id
        assert [partitions.get("brief", index).log.topic_id for index in range(3)] == [topic.topic_id] * 3

    broker.run_in_broker(change)
    assert sorted(folders(broker, "brief")) == ["brief-0", "brief-1", "brief-2"]
    assert folders(broker, "gone") == []


def test_a_topic_waits_only_for_a_deleted_one_of_its_name(broker: Broker) -> None:
    """A topic is created while the logs of another topic are made. A topic that reuses a deleted topic's name waits
    until no file names the deleted topic; otherwise a crash would look like lost records."""

    async def create(server: BrokerServer) -> None:
        assert server.context is not None
        metadata, partitions = server.context.metadata, server.context.partitions
        await metadata.create_topics([NewTopic("old", partitions=2)])
        await partitions.settled()
        append(partitions.get("old", 1).log)
        partitions.get("old", 1).log.flush()
        await asyncio.wrap_future(server.context.log_directory.checkpoint())
        assert "old 1 1" in checkpoint.read_text(encoding="utf-8")
        await metadata.create_topics([NewTopic("many", partitions=MANY)])
        await metadata.create_topics([NewTopic("another", partitions=1)])
        with pytest.raises(KafkaError):
            partitions.get("many", MANY - 1)
        await metadata.delete_topics({metadata.image.topics["old"].topic_id: "old"})
        seen: list[str] = []
        metadata.subscribe(lambda before, after: seen.append(checkpoint.read_text(encoding="utf-8")))
        await metadata.create_topics([NewTopic("old", partitions=2)])
        assert "old" not in seen[0]

    checkpoint = broker.data_dir / RECOVERY_POINT_FILE
    broker.run_in_broker(create)


def test_a_broker_stops_while_logs_are_made(caplog: pytest.LogCaptureFixture) -> None:
    """A broker that stops while logs are created finishes all of them and logs no traceback."""

    async def create(server: BrokerServer) -> None:
        assert server.context is not None
        await server.context.metadata.create_topics([NewTopic("late", partitions=MANY)])
        assert server.context.partitions.by_name["late"].partitions[-1] is None
        await server.stop()

    with Broker() as broker:
        broker.run_in_broker(create)
        assert len(folders(broker, "late")) == MANY
    assert "Traceback" not in caplog.text
