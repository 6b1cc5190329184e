"""`klamm serve`: run a broker until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
from pathlib import Path

from klamm.broker.services.allocator import keep_freed_buffers
from klamm.cli.arguments import key_value, listen_address
from klamm.cli.errors import UsageError
from klamm.config.broker_config import BrokerConfig
from klamm.config.errors import ConfigurationError
from klamm.errors import KlammError

__all__ = ["configure", "run"]

_logger = logging.getLogger(__name__)


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `klamm serve`."""
    parser.add_argument("--data-dir", metavar="DIR", help="where everything is stored (log.dirs; default ./klamm-data)")
    parser.add_argument(
        "--listen",
        type=listen_address,
        metavar="HOST:PORT",
        help="where to listen; port 0 picks a free one (listeners; default 127.0.0.1:9092)",
    )
    parser.add_argument("--config", metavar="FILE", type=Path, help="a file with Kafka's server.properties names")
    parser.add_argument(
        "--profile",
        choices=("default", "test"),
        default="default",
        help="test: no rebalance delay and one partition for offsets",
    )
    parser.add_argument(
        "-X",
        metavar="KEY=VALUE",
        action="append",
        type=key_value,
        default=[],
        dest="overrides",
        help="one configuration key; may be repeated",
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="log more")


def run(arguments: argparse.Namespace) -> int:
    """Runs a broker until SIGTERM or SIGINT.

    Returns 0 after a clean stop, 1 if the broker can't start. Raises UsageError for an invalid configuration.
    """
    gc.disable()  # until the broker serves: imports leave no garbage, and collections are a tenth of the start's time
    logging.basicConfig(
        level=logging.DEBUG if arguments.verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    flags: dict[str, str] = dict(arguments.overrides)
    if arguments.data_dir is not None:
        flags["log.dirs"] = arguments.data_dir
    if arguments.listen is not None:
        flags["listeners"] = f"PLAINTEXT://{arguments.listen}"
    try:
        config = BrokerConfig.load(flags=flags, environ=os.environ, file=arguments.config, profile=arguments.profile)
    except ConfigurationError as error:
        raise UsageError(str(error)) from None
    keep_freed_buffers()
    new_event_loop = _fast_event_loop()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(_serve(config))


def _fast_event_loop() -> type[asyncio.AbstractEventLoop] | None:
    """Returns uvloop's event loop if it is installed, else None for asyncio's own, which serves about half the rate."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.Loop


async def _serve(config: BrokerConfig) -> int:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    from klamm.broker.server import BrokerServer
    from klamm.broker.services.garbage_collection import GarbageCollection

    server = BrokerServer(config)
    try:
        addresses = await server.start()
    except KlammError as error:
        await server.stop()
        print(f"klamm serve: {error}", file=sys.stderr)
        return 1
    collection = GarbageCollection()
    collection.start()
    for host, port in addresses:
        print(f"ready [{host}]:{port}" if ":" in host else f"ready {host}:{port}", flush=True)
    await stopped.wait()
    _logger.info("stopping")
    collection.stop()
    await server.stop()
    return 0
