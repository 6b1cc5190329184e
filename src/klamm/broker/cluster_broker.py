"""A broker whose metadata store is in etcd, shared with the other brokers of its cluster.

The data directory remembers the store: its identity is compared before any folder is touched, and its revision is
recorded while the broker runs. So a broker does not start on another store, or on an older state of its own.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final

from klamm.broker.server import BrokerServer
from klamm.broker.services.cluster.directory_of_cluster import known_store, record_store
from klamm.broker.shared_listener import warn_of_shared_listener
from klamm.broker.workers.end_with_supervisor import end_soon
from klamm.metadata.entries import CLUSTER_KEY, live_key
from klamm.metadata.etcd.opening import open_etcd_store
from klamm.metadata.service import MetadataService
from klamm.metadata.store_identity import check_commit, check_creation, check_identity
from klamm.storage.directory.meta_properties import MetaProperties

if TYPE_CHECKING:
    from collections.abc import Callable

    from klamm.broker.handler_context import BrokerContext
    from klamm.config.broker_config import BrokerConfig
    from klamm.metadata.etcd.etcd_store import EtcdStore
    from klamm.metadata.image import MetadataImage
    from klamm.protocol.types import BrokerId

__all__ = ["ClusterBroker", "choose_broker_id"]

_RECORD_S: Final = 30.0
"""How often the revision of the store is recorded."""
_logger = logging.getLogger(__name__)


async def choose_broker_id(config: BrokerConfig) -> BrokerId:
    """Returns the id of a broker without a configured one: that of its data directory, or a new one from the store.

    Raises KlammError, OSError.
    """
    properties = MetaProperties.read(Path(config.data_directory))
    if properties is not None:
        return type(config.node_id)(properties.node_id)
    metadata = await MetadataService.open(await _open(config), config)
    try:
        return await metadata.allocate_broker_id()
    finally:
        await metadata.close()


async def _open(config: BrokerConfig) -> EtcdStore:
    return await open_etcd_store(config.klamm_metadata, session_timeout_s=config.broker_session_timeout_ms / 1000)


class ClusterBroker:
    """One broker of a cluster: a server, and the record of its metadata store in the data directory."""

    def __init__(self, config: BrokerConfig, must_stop: Callable[[], None]) -> None:
        """Creates the broker. `must_stop` is called when the broker must be stopped: it was unregistered, or its
        session with the store is lost. In the latter case it answers nothing more, and the process is killed if the
        stop takes too long.
        """
        self.server = BrokerServer(
            config,
            open_store=self._open_store,
            before_serving=self._begin_record,
            on_unregistered=must_stop,
        )
        self.is_lost = False
        self._config = config
        self._must_stop = must_stop
        self._store: EtcdStore | None = None
        self._recording: asyncio.Task[None] | None = None

    async def start(self) -> list[tuple[str, int]]:
        """Starts the server. Raises the errors of `BrokerServer.start`, and WrongStore."""
        warn_of_shared_listener(self._config)
        return await self.server.start()

    async def stop(self) -> None:
        """Records the store a last time, and stops the server."""
        if self._recording is not None:
            self._recording.cancel()
            await self._record()
        await self.server.stop()

    async def _open_store(self) -> EtcdStore:
        directory = Path(self._config.data_directory)
        known = known_store(directory)
        store = await _open(self._config)
        try:
            check_identity(known, store.identity)
            if known is not None and known.latest is not None:
                check_commit(known, await store.find_commit(known.latest))
            check_creation(known, await store.created(CLUSTER_KEY))
        except BaseException:
            await store.close()
            raise
        store.on_session_lost(self._lose)
        self._store = store
        return store

    def _look_for_session(self, _: MetadataImage, image: MetadataImage) -> None:
        """Ends the session if its entry is gone: the other brokers see this one as gone, and its lease keeps nothing.

        Only this broker removes the entry, when it stops; or a process that starts with a copy of its data directory,
        which looks like its next run; or a person.
        """
        broker_id = self._config.node_id
        if broker_id not in image.live:
            assert self._store is not None
            self._store.end(
                f"its entry {live_key(broker_id)} was removed, by a person or by a process that runs with a copy of "
                f"this data directory"
            )

    def _lose(self) -> None:
        _logger.error("this broker stops, because other brokers may see it as gone")
        self.is_lost = True
        self.server.disconnect()
        end_soon()
        self._must_stop()

    async def _begin_record(self, context: BrokerContext) -> None:
        context.metadata.subscribe(self._look_for_session)
        self._look_for_session(context.metadata.image, context.metadata.image)
        await self._record()
        self._recording = asyncio.create_task(self._keep_record())

    async def _keep_record(self) -> None:
        while True:
            await asyncio.sleep(_RECORD_S)
            await self._record()

    async def _record(self) -> None:
        assert self._store is not None
        try:
            await asyncio.to_thread(record_store, Path(self._config.data_directory), self._store.identity)
        except OSError as error:
            _logger.warning("the revision of the metadata store can't be recorded: %s", error)
