"""Creates the topics of a world before any client uses them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from klamm.client.config import ClientConfig
from klamm.client.errors import ConnectionFailed
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.create_topics_request import CreatableTopic, CreateTopicsRequest
from klamm.protocol.schema.create_topics_response import CreateTopicsResponse
from klamm.protocol.schema.metadata_request import MetadataRequest
from klamm.protocol.schema.metadata_response import MetadataResponse
from klamm.protocol.types import TopicId

if TYPE_CHECKING:
    from tests.simulation.brokers.client_world import ClientWorld
    from tests.simulation.brokers.clients.client import Client

__all__ = ["create_topics"]


async def create_topics(world: ClientWorld) -> None:
    """Creates the world's topics, and stores their ids."""
    client = world.make_client(ClientConfig(bootstrap_servers=world.addresses), {})
    request = CreateTopicsRequest(
        timeout_ms=10_000,
        topics=[
            CreatableTopic(name=name, num_partitions=count, replication_factor=world.plan.replication_factor)
            for name, count in world.plan.topics.items()
        ],
    )
    while len(world.topic_ids) < len(world.plan.topics):
        try:
            answer = await client.ask(request, CreateTopicsResponse)
        except ConnectionFailed:
            await asyncio.sleep(0.01)
            continue
        for topic in answer.topics:
            if topic.error_code == ErrorCode.INVALID_REPLICATION_FACTOR:
                await asyncio.sleep(0.01)  # not all brokers have registered yet
                continue
            if topic.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
                await _find_ids(world, client)  # the answer to the first request was lost
                continue
            if topic.error_code:
                raise KafkaError(ErrorCode(topic.error_code), topic.error_message or "")
            world.topic_ids[topic.name] = TopicId(topic.topic_id)
    client.disconnect()


async def _find_ids(world: ClientWorld, client: Client) -> None:
    """Stores the ids of the world's topics that the metadata have, after a while."""
    await asyncio.sleep(0.01)
    try:
        answer = await client.ask(MetadataRequest(topics=None), MetadataResponse)
    except ConnectionFailed:
        return
    for topic in answer.topics:
        if topic.name in world.plan.topics and topic.error_code == ErrorCode.NONE:
            world.topic_ids[topic.name] = TopicId(topic.topic_id)
