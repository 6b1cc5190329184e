"""The broker of one of several workers: its metadata store is the supervisor's."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final

from klamm.broker.server import BrokerServer
from klamm.broker.workers.end_with_supervisor import end_soon
from klamm.metadata.remote_store import RemoteStore

if TYPE_CHECKING:
    from klamm.broker.handler_context import BrokerContext
    from klamm.config.broker_config import BrokerConfig
    from klamm.metadata.image import MetadataImage

__all__ = ["worker_server"]

_logger = logging.getLogger(__name__)

_OTHERS_S: Final = 10.0
"""How long a worker waits for the others before it serves."""


def worker_server(config: BrokerConfig, waits_for: int, metadata_socket: Path, stopped: asyncio.Event) -> BrokerServer:
    """Returns the server of one of several workers.

    It serves when `waits_for` workers are alive, or after ten seconds: topics that clients create are then spread over
    all of them. When the supervisor is gone, the server answers nothing more, and `stopped` is set: the worker must
    stop, and is killed if it does not. It is set, too, when the worker was unregistered: the supervisor starts it
    again. When it is set, the worker waits no longer.
    """

    def lost() -> None:
        _logger.error("the supervisor is gone: this worker stops")
        server.disconnect()
        end_soon()
        stopped.set()

    async def open_store() -> RemoteStore:
        store = await RemoteStore.open(metadata_socket)
        store.on_session_lost(lost)
        return store

    async def wait_for_others(context: BrokerContext) -> None:
        are_there = asyncio.Event()

        def look(old: MetadataImage, new: MetadataImage) -> None:
            if len(new.brokers) >= waits_for:
                are_there.set()

        context.metadata.subscribe(look)
        look(context.metadata.image, context.metadata.image)
        waiting = [asyncio.create_task(event.wait()) for event in (are_there, stopped)]
        await asyncio.wait(waiting, timeout=_OTHERS_S, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()

    server = BrokerServer(config, open_store=open_store, before_serving=wait_for_others, on_unregistered=stopped.set)
    return server
