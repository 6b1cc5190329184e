"""Several metadata services over one etcd, whose connections are cut and whose answers are lost while they change the
same things: every outcome that a service reports is true, and all services see the same."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import random
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

import pytest
from tests.support.cut_proxy import CutProxy
from tests.support.etcd_server import Etcd
from tests.unit.metadata.test_metadata_store import run

from klamm.config.broker_config import BrokerConfig
from klamm.metadata.etcd.etcd_store import EtcdStore
from klamm.metadata.image import TopicImage
from klamm.metadata.service import MetadataService, NewTopic
from klamm.protocol.errors import KafkaError
from klamm.protocol.types import BrokerId

_ROUNDS: Final = int(os.environ.get("KLAMM_ETCD_ROUNDS", "6"))
_BROKERS: Final = 3
_TOPICS: Final = 4
_PARTITIONS: Final = 300
"""More than one transaction can hold."""


class _Observations:
    """What the services reported."""

    def __init__(self) -> None:
        self.blocks: list[range] = []
        self.created: dict[str, list[TopicImage]] = {}
        self.deleted: dict[str, int] = {}
        self.failures = 0


async def _change(service: MetadataService, seen: _Observations, choose: random.Random, is_over: asyncio.Event) -> None:
    while not is_over.is_set():
        name = f"t{choose.randrange(_TOPICS)}"
        try:
            if choose.random() < 0.5:
                seen.blocks.append(await service.producer_ids.allocate(10))
            elif (known := service.image.topics.get(name)) is None:
                partitions = choose.choice([1, _PARTITIONS])
                created = (await service.create_topics([NewTopic(name, partitions=partitions)]))[name]
                if isinstance(created, TopicImage):
                    seen.created.setdefault(name, []).append(created)
            else:
                result = await service.delete_topics([known.topic_id])
                if result[known.topic_id] is None:
                    seen.deleted[name] = seen.deleted.get(name, 0) + 1
        except KafkaError:  # the store can't be reached: the change has no effect
            seen.failures += 1
        await asyncio.sleep(0)


async def _trouble(etcd: Etcd, proxies: list[CutProxy], choose: random.Random) -> None:
    for _ in range(_ROUNDS):
        await asyncio.sleep(choose.uniform(0.1, 0.5))
        proxy = choose.choice(proxies)
        fault = choose.choice(["cut", "lose", "restart", "compact"])
        if fault == "restart":
            await asyncio.to_thread(etcd.restart)
        elif fault == "compact":
            proxy.cut()
            await asyncio.sleep(choose.uniform(0.1, 0.5))
            await asyncio.to_thread(etcd.compact)
        elif fault == "cut":
            proxy.cut()
        else:
            proxy.lose_answers()
        await asyncio.sleep(choose.uniform(0.1, 0.8))
        proxy.heal()


@pytest.mark.timeout(120 + 20 * _ROUNDS)
def test_every_reported_outcome_is_true(own_etcd: Callable[..., Etcd]) -> None:
    """No two blocks of producer ids overlap. A topic exists if it was created more often than it was deleted. The
    images of all services are the same in the end."""
    etcd = own_etcd()
    seed = int(os.environ.get("KLAMM_ETCD_SEED", random.randrange(2**32)))
    choose = random.Random(seed)

    async def scenario(proxies: list[CutProxy]) -> None:
        services = []
        for number, proxy in enumerate(proxies, 1):
            address = dataclasses.replace(etcd.address(), endpoints=(proxy.endpoint,))
            store = await EtcdStore.open(address, session_timeout_s=60)
            service = await MetadataService.open(store, BrokerConfig(node_id=BrokerId(number)))
            await service.start_broker({"PLAINTEXT": ("127.0.0.1", 9000 + number)})
            services.append(service)
        seen = _Observations()
        is_over = asyncio.Event()
        changing = [
            asyncio.create_task(_change(service, seen, random.Random(choose.random()), is_over)) for service in services
        ]
        await _trouble(etcd, proxies, choose)
        is_over.set()
        await asyncio.gather(*changing)
        late = await MetadataService.open(await EtcdStore.open(etcd.address()), BrokerConfig(node_id=BrokerId(9)))
        for service in services:  # each sees the changes of the others when it has made one
            await service.producer_ids.allocate(1)
        ids = [number for block in seen.blocks for number in block]
        assert len(ids) == len(set(ids))
        for name in (f"t{number}" for number in range(_TOPICS)):
            surplus = len(seen.created.get(name, ())) - seen.deleted.get(name, 0)
            assert surplus == (name in late.image.topics), name
        for service in services:
            assert service.image.topics == late.image.topics
        assert len(ids) > 10
        for service in (*services, late):
            await service.close()

    with ExitStack() as stack:
        proxies = [stack.enter_context(CutProxy(etcd.members[0].port)) for _ in range(_BROKERS)]
        try:
            run(asyncio.wait_for(scenario(proxies), 100 + 20 * _ROUNDS))
        except BaseException:
            print(f"KLAMM_ETCD_SEED={seed}")
            raise
