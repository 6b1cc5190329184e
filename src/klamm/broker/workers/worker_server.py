"""The broker of one of several workers: its metadata store is the supervisor's."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from klamm.broker.server import BrokerServer
from klamm.metadata.remote_store import RemoteStore

if TYPE_CHECKING:
    from klamm.broker.handler_context import BrokerContext
    from klamm.config.broker_config import BrokerConfig
    from klamm.metadata.image import MetadataImage

__all__ = ["worker_server"]

_logger = logging.getLogger(__name__)

_OTHERS_S: Final = 10.0
"""How long a worker waits for the others before it serves."""


def worker_server(
    config: BrokerConfig, workers: int, metadata_socket: Path, on_session_lost: Callable[[], None]
) -> BrokerServer:
    """Returns the server of one of `workers` workers.

    It serves when all workers are alive, or after ten seconds: topics that clients create are then spread over all of
    them. `on_session_lost` is called when the supervisor is gone: the worker must stop.
    """

    def lost() -> None:
        _logger.error("the supervisor is gone: this worker stops")
        on_session_lost()

    async def open_store() -> RemoteStore:
        store = await RemoteStore.open(metadata_socket)
        store.on_session_lost(lost)
        return store

    async def wait_for_others(context: BrokerContext) -> None:
        are_there = asyncio.Event()

        def look(old: MetadataImage, new: MetadataImage) -> None:
            if len(new.brokers) >= workers:
                are_there.set()

        context.metadata.subscribe(look)
        look(context.metadata.image, context.metadata.image)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(are_there.wait(), _OTHERS_S)

    return BrokerServer(config, open_store=open_store, before_serving=wait_for_others)
