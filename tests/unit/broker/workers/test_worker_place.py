"""Tests the configuration of each of several workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.broker.workers.worker_place import check_config, flags_of, socket_path
from klamm.config.broker_config import BrokerConfig
from klamm.config.errors import ConfigurationError


def _config(**flags: str) -> BrokerConfig:
    named = {key.replace("_", "."): value for key, value in flags.items()}
    return BrokerConfig.load(flags={"log.dirs": "/data", **named}, environ={})


def test_ports_count_up_from_the_first_worker() -> None:
    """Worker N has the N-th port of each listener, its own node id and folder."""
    config = _config(
        listeners="PLAINTEXT://:9092", advertised_listeners="PLAINTEXT://host:19092", klamm_metrics_listener="::1:9404"
    )
    assert flags_of(config, 3) == {
        "node.id": "3",
        "log.dirs": "/data/workers/3",
        "listeners": "PLAINTEXT://:9094",
        "advertised.listeners": "PLAINTEXT://host:19094",
        "klamm.metrics.listener": "::1:9406",
    }


def test_the_first_worker_is_the_single_broker() -> None:
    """It has the folder and the ports of a broker without workers. Free ports stay free ports."""
    assert flags_of(_config(listeners="PLAINTEXT://127.0.0.1:0", klamm_metrics_listener="127.0.0.1:0"), 1) == {
        "node.id": "1",
        "log.dirs": "/data",
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "klamm.metrics.listener": "127.0.0.1:0",
    }


def test_a_worker_that_starts_again_keeps_its_port() -> None:
    """Clients know the free port that it has picked. A port that is configured is not changed."""
    assert flags_of(_config(listeners="PLAINTEXT://127.0.0.1:0"), 2, 50_000)["listeners"] == (
        "PLAINTEXT://127.0.0.1:50000"
    )
    assert flags_of(_config(listeners="PLAINTEXT://127.0.0.1:9092"), 2, 50_000)["listeners"] == (
        "PLAINTEXT://127.0.0.1:9093"
    )


@pytest.mark.parametrize(
    "flags", [{"listeners": "PLAINTEXT://127.0.0.1:65533"}, {"klamm_metrics_listener": "127.0.0.1:65533"}]
)
def test_ports_that_do_not_exist_are_refused(flags: dict[str, str]) -> None:
    """Each worker needs a port below 65536, also for metrics."""
    check_config(_config(**flags), 3)
    with pytest.raises(ConfigurationError, match="4 workers need the ports 65533 to 65536"):
        check_config(_config(**flags), 4)


def test_an_address_for_metrics_without_a_port_is_refused() -> None:
    """There is nothing to count up."""
    with pytest.raises(ConfigurationError, match="is not HOST:PORT"):
        check_config(_config(klamm_metrics_listener="here"), 2)


def test_a_long_path_gets_a_socket_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system limits the path of a socket, but not that of a data directory."""
    assert socket_path(Path("/data")) == Path("/data/metadata.socket")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = socket_path(Path("/data") / ("x" * 100))
    assert path.parent.parent == tmp_path
    assert path.parent.stat().st_mode & 0o077 == 0
