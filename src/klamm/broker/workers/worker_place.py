"""Where each of several workers stores its logs and listens, from the configuration that they share.

Worker N listens N - 1 ports above worker 1; with port 0 each picks a free one, and keeps it when it starts again.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from klamm.config.broker_config import BrokerConfig
from klamm.config.errors import ConfigurationError
from klamm.config.listeners import Listener
from klamm.storage.directory.worker_directories import worker_directory

__all__ = ["check_config", "flags_of", "socket_path"]

_SOCKET: Final = "metadata.socket"
_HIGHEST_PORT: Final = 65_535
_LONGEST_SOCKET_PATH: Final = 100
"""Unix sockets have short paths: 107 bytes on Linux, fewer elsewhere."""


def check_config(config: BrokerConfig, workers: int) -> None:
    """Refuses a configuration that several workers can't share. Raises ConfigurationError."""
    if len(config.listeners) != 1 or len(config.advertised_listeners) > 1:
        raise ConfigurationError(
            f"--workers {workers} takes one listener, and there are {max(len(config.listeners), 2)}: each worker "
            "listens at a port of its own"
        )
    if config.node_id != BrokerConfig().node_id:
        raise ConfigurationError(
            f"--workers {workers} goes without node.id={config.node_id}: the workers are brokers 1 to {workers}"
        )
    for port in _ports(config):
        if port and port + workers - 1 > _HIGHEST_PORT:
            raise ConfigurationError(f"{workers} workers need the ports {port} to {port + workers - 1}")


def _ports(config: BrokerConfig) -> list[int]:
    ports = [listener.port for listener in (*config.listeners, *config.advertised_listeners)]
    if not config.klamm_metrics_listener:
        return ports
    from klamm.broker.services.metrics.metrics import MetricsUnavailable, parse_address

    try:
        _, port = parse_address(config.klamm_metrics_listener)
    except MetricsUnavailable as error:
        raise ConfigurationError(str(error)) from None
    return [*ports, port]


def flags_of(config: BrokerConfig, worker: int, earlier_port: int = 0) -> dict[str, str]:
    """Returns the settings that differ for this worker, by key. `earlier_port`: that of the worker's last run, or 0."""
    listener = _moved(config.listeners[0], worker)
    flags = {
        "node.id": str(worker),
        "log.dirs": str(worker_directory(Path(config.data_directory), worker)),
        "listeners": str(listener if listener.port else listener._replace(port=earlier_port)),
    }
    if config.advertised_listeners:
        flags["advertised.listeners"] = str(_moved(config.advertised_listeners[0], worker))
    if config.klamm_metrics_listener:
        host, _, port = config.klamm_metrics_listener.rpartition(":")
        flags["klamm.metrics.listener"] = f"{host}:{int(port) + worker - 1 if int(port) else 0}"
    return flags


def socket_path(directory: Path) -> Path:
    """Returns the path of the socket of the metadata store: in the data directory, or in a new folder if that path is
    too long."""
    path = directory.absolute() / _SOCKET
    if len(str(path).encode()) <= _LONGEST_SOCKET_PATH:
        return path
    return Path(tempfile.mkdtemp(prefix="klamm-")) / _SOCKET


def _moved(listener: Listener, worker: int) -> Listener:
    return listener._replace(port=listener.port + worker - 1 if listener.port else 0)
