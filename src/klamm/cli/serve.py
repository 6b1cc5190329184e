"""`klamm serve`: run a broker, or several workers, until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from klamm._version import __version__
from klamm.broker.services.memory.allocator import keep_freed_buffers
from klamm.cli.arguments import key_value, listen_address, natural_number
from klamm.cli.errors import UsageError
from klamm.config.broker_config import BrokerConfig
from klamm.config.configuration_sources import is_set
from klamm.config.errors import ConfigurationError
from klamm.errors import KlammError

if TYPE_CHECKING:
    from klamm.broker.cluster_broker import ClusterBroker
    from klamm.broker.server import BrokerServer

__all__ = ["configure", "run"]

_logger = logging.getLogger(__name__)


class _Worker(NamedTuple):
    """What one of several workers has in addition to its configuration."""

    number: int
    metadata_socket: Path
    waits_for: int
    """The number of live workers to wait for before it serves."""


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
    parser.add_argument(
        "--workers",
        type=natural_number,
        metavar="N",
        default=1,
        help="serve with N processes, brokers 1 to N, on the port of --listen and the ports above it (default 1)",
    )
    parser.add_argument(
        "--metadata",
        metavar="URL",
        help="the metadata store in etcd that the brokers of a cluster share: etcd://HOST:PORT,.../PREFIX "
        "(klamm.metadata; default: this broker is the only one)",
    )
    parser.add_argument(
        "--broker-id",
        type=natural_number,
        metavar="N",
        help="this broker's id in its cluster (node.id; default with --metadata: an id that no other broker has)",
    )
    # How the command starts each of several workers.
    parser.add_argument("--worker", type=natural_number, help=argparse.SUPPRESS)
    parser.add_argument("--worker-port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--metadata-socket", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--supervisor", type=natural_number, help=argparse.SUPPRESS)
    parser.add_argument("--supervisor-version", help=argparse.SUPPRESS)
    parser.add_argument("--wait-for-others", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("-v", "--verbose", action="store_true", help="log more")


def run(arguments: argparse.Namespace) -> int:
    """Runs a broker, or several workers, until SIGTERM or SIGINT.

    Returns 0 after a clean stop, 1 if a broker can't start, `OTHER_VERSION_STATUS` for a worker of another version than
    its supervisor. Raises UsageError for an invalid configuration.
    """
    gc.disable()  # until the broker serves: imports leave no garbage, and collections are a tenth of the start's time
    if arguments.worker is not None:
        from klamm.broker.workers.supervisor_version import OTHER_VERSION_STATUS, other_version

        if (reason := other_version(arguments.supervisor_version)) is not None:
            print(f"klamm serve: worker {arguments.worker}: {reason}", file=sys.stderr)
            return OTHER_VERSION_STATUS
    return _run(arguments)


def _run(arguments: argparse.Namespace) -> int:
    worker: int | None = arguments.worker
    logging.basicConfig(
        level=logging.DEBUG if arguments.verbose else logging.INFO,
        format=f"%(asctime)s {'' if worker is None else f'worker {worker} '}%(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    flags: dict[str, str] = dict(arguments.overrides)
    if arguments.data_dir is not None:
        flags["log.dirs"] = arguments.data_dir
    if arguments.listen is not None:
        flags["listeners"] = f"PLAINTEXT://{arguments.listen}"
    if arguments.metadata is not None:
        flags["klamm.metadata"] = arguments.metadata
    if arguments.broker_id is not None:
        flags["node.id"] = str(arguments.broker_id)
    try:
        config = BrokerConfig.load(flags=flags, environ=os.environ, file=arguments.config, profile=arguments.profile)
        if worker is not None or arguments.workers > 1:
            from klamm.broker.workers.worker_place import check_config, flags_of

            check_config(config, arguments.workers)
            if config.klamm_metadata:
                raise ConfigurationError("--workers goes without klamm.metadata: start brokers instead of workers")
        if worker is not None:
            flags |= flags_of(config, worker, arguments.worker_port)
            config = BrokerConfig.load(
                flags=flags, environ=os.environ, file=arguments.config, profile=arguments.profile
            )
    except ConfigurationError as error:
        raise UsageError(str(error)) from None
    with asyncio.Runner(loop_factory=_fast_event_loop()) as runner:
        if worker is None and arguments.workers > 1:
            return runner.run(_supervise(config, arguments.workers))
        keep_freed_buffers()
        if config.klamm_metadata:
            has_id = is_set("node.id", flags, os.environ, arguments.config)

            def with_id(broker_id: int) -> BrokerConfig:
                own = {**flags, "node.id": str(broker_id)}
                return BrokerConfig.load(
                    flags=own, environ=os.environ, file=arguments.config, profile=arguments.profile
                )

            return runner.run(_serve_in_cluster(config, None if has_id else with_id))
        if worker is None:
            return runner.run(_serve(config))
        from klamm.broker.workers.end_with_supervisor import signal_when_supervisor_dies

        signal_when_supervisor_dies(arguments.supervisor)
        # A worker that starts again does not wait: the others serve, or are away for a reason of their own.
        others = arguments.workers if arguments.wait_for_others else 0
        return runner.run(_serve(config, _Worker(worker, arguments.metadata_socket, others)))


def _fast_event_loop() -> type[asyncio.AbstractEventLoop] | None:
    """Returns uvloop's event loop if it is installed, else None for asyncio's own, which serves about half the rate."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.Loop


def _on_stop_signal(callback: Callable[[], object]) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, callback)


async def _supervise(config: BrokerConfig, workers: int) -> int:
    from klamm.broker.start_failure import directory_failure
    from klamm.broker.workers.supervisor import Supervisor, WorkerStart
    from klamm.broker.workers.supervisor_version import VERSION_OPTION

    gc.enable()

    def command_of(start: WorkerStart) -> list[str]:
        options = {
            "--worker": start.number,
            "--worker-port": start.port,
            "--metadata-socket": start.metadata_socket,
            "--supervisor": os.getpid(),
            VERSION_OPTION: __version__,
        }
        words = [str(word) for option in options.items() for word in option]
        waiting = ["--wait-for-others"] if start.waits_for_others else []
        # -P: the working directory may have any Python files, so it must not be on the path of imports.
        return [sys.executable, "-P", "-m", "klamm.cli", *sys.argv[1:], *words, *waiting]

    directory = Path(config.data_directory)
    supervisor = Supervisor(directory, workers, command_of)
    _on_stop_signal(supervisor.stop)
    try:
        return await supervisor.run()
    except (KlammError, OSError) as error:
        failure = error if isinstance(error, KlammError) else directory_failure(error, directory) or error
        print(f"klamm serve: {failure}", file=sys.stderr)
        return 1


async def _serve(config: BrokerConfig, worker: _Worker | None = None) -> int:
    stopped = asyncio.Event()
    _on_stop_signal(stopped.set)
    from klamm.broker.server import BrokerServer

    if worker is None:
        server = BrokerServer(config)
    else:
        from klamm.broker.workers.worker_server import worker_server

        server = worker_server(config, worker.waits_for, worker.metadata_socket, stopped)
    place = "" if worker is None else f"worker {worker.number}: "
    if not await _started(server, place):
        return 1
    await _until(stopped)
    await server.stop()
    return 0


async def _serve_in_cluster(config: BrokerConfig, with_id: Callable[[int], BrokerConfig] | None) -> int:
    """Runs one broker of a cluster. `with_id`: the configuration with an id, for a broker that has none yet."""
    stopped = asyncio.Event()
    _on_stop_signal(stopped.set)
    from klamm.broker.cluster_broker import ClusterBroker, choose_broker_id

    if with_id is not None:
        try:
            config = with_id(await choose_broker_id(config))
        except (KlammError, OSError) as error:
            print(f"klamm serve: {error}", file=sys.stderr)
            return 1
    broker = ClusterBroker(config, stopped.set)
    if not await _started(broker, ""):
        return 1
    await _until(stopped)
    await broker.stop()
    return 1 if broker.is_lost else 0


async def _started(server: BrokerServer | ClusterBroker, place: str) -> bool:
    """Starts the server and prints its addresses. Prints the error and stops the server if it can't start."""
    try:
        addresses = await server.start()
    except KlammError as error:
        await server.stop()
        print(f"klamm serve: {place}{error}", file=sys.stderr)
        return False
    for host, port in addresses:
        print(f"ready [{host}]:{port}" if ":" in host else f"ready {host}:{port}", flush=True)
    return True


async def _until(stopped: asyncio.Event) -> None:
    from klamm.broker.services.memory.garbage_collection import GarbageCollection

    collection = GarbageCollection()
    collection.start()
    await stopped.wait()
    _logger.info("stopping")
    collection.stop()
