"""`klamm serve` as a process."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from tests.integration.cli.conftest import KLAMM, PATIENCE_S
from tests.support.faulty_disk import FaultyDisk, why_not
from tests.support.wire import Wire

from klamm.protocol.schema.metadata_request import MetadataRequest
from klamm.protocol.schema.metadata_response import MetadataResponse
from klamm.testing import Broker


class Served:
    """A `klamm serve` process, running or ended."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    @property
    def _stdout(self) -> IO[str]:
        assert self.process.stdout is not None
        return self.process.stdout

    def ready(self) -> str:
        """Waits for the ready line and returns the address in it."""
        line = self._stdout.readline()
        assert line.startswith("ready "), self.ended()
        return line.split()[1]

    def ended(self) -> tuple[int, str, str]:
        """Waits for the end; returns the exit status, the rest of the output, and the log."""
        stdout, stderr = self.process.communicate(timeout=PATIENCE_S)
        assert "Traceback" not in stderr, stderr
        return self.process.returncode, stdout, stderr

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str, str]:
        """Sends a signal and waits for the end."""
        self.process.send_signal(number)
        return self.ended()


Serve = Callable[..., Served]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Returns a function that starts `klamm serve` in the test's folder; kills the processes after the test."""
    started: list[Served] = []

    def start(*words: str, environment: Mapping[str, str] | None = None) -> Served:
        environ = {name: text for name, text in os.environ.items() if not name.startswith("KLAMM_")}
        process = subprocess.Popen(
            [KLAMM, "serve", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env=environ | dict(environment or {}),
        )
        started.append(Served(process))
        return started[-1]

    yield start
    for served in started:
        served.process.kill()
        served.process.communicate()


FREE_PORT = ("--listen", "127.0.0.1:0")


def _setting(address: str, key: str) -> str:
    """Returns the broker's value of a configuration key."""
    admin = AdminClient({"bootstrap.servers": address})
    resource = ConfigResource(ResourceType.BROKER, "1")
    value = admin.describe_configs([resource])[resource].result(30)[key].value
    assert isinstance(value, str)
    return value


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_is_ready_when_it_says_so_and_stops_cleanly(serve: Serve, tmp_path: Path, number: signal.Signals) -> None:
    """The broker prints one line with its port when it is ready; a signal ends it cleanly with exit status 0."""
    broker = serve(*FREE_PORT, "--data-dir", "data")
    host, port = broker.ready().split(":")
    assert host == "127.0.0.1"
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S):
        pass
    status, rest, _ = broker.stop(number)
    assert (status, rest) == (0, "")
    assert (tmp_path / "data" / ".kafka_cleanshutdown").is_file()


def test_data_lies_in_klamm_data_by_default(serve: Serve, tmp_path: Path) -> None:
    """By default the data directory is `klamm-data` in the current folder."""
    broker = serve(*FREE_PORT)
    broker.ready()
    assert (tmp_path / "klamm-data" / "meta.properties").is_file()
    assert broker.stop()[0] == 0


def test_a_second_broker_on_the_same_data_is_refused(serve: Serve) -> None:
    """A second broker on the same data directory fails with one line and does not disturb the first. When the first is
    killed, another broker can start."""
    first = serve(*FREE_PORT, "--data-dir", "data")
    address = first.ready()
    status, stdout, stderr = serve(*FREE_PORT, "--data-dir", "data").ended()
    assert (status, stdout) == (1, "")
    assert "is in use by another broker: stop that one first, or give this one a folder of its own" in stderr
    assert _setting(address, "node.id") == "1"
    first.process.kill()
    first.ended()
    third = serve(*FREE_PORT, "--data-dir", "data")
    third.ready()
    assert third.stop()[0] == 0


def test_an_address_that_is_taken_is_told(serve: Serve, broker: Broker) -> None:
    """An address in use ends the broker with exit status 1 and a line that says what to do."""
    status, stdout, stderr = serve("--listen", broker.bootstrap_servers).ended()
    assert (status, stdout) == (1, "")
    assert stderr.splitlines()[-1].startswith("klamm serve: ")
    assert "in use; --listen HOST:PORT picks another, port 0 a free one" in stderr


def last_words(served: Served) -> str:
    """Returns the last error line of a broker that did not start; it contains no errno."""
    status, stdout, stderr = served.ended()
    assert (status, stdout) == (1, "")
    sentence = stderr.splitlines()[-1]
    assert sentence.startswith("klamm serve: ")
    assert "Errno" not in stderr
    return sentence.removeprefix("klamm serve: ")


def test_a_folder_that_can_not_be_made_is_told(serve: Serve, tmp_path: Path) -> None:
    """A data directory that can't be created ends the broker with exit status 1, because the command line could be
    right elsewhere."""
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    for folder in ("file", "file/data"):
        sentence = last_words(serve(*FREE_PORT, "--data-dir", folder))
        assert sentence.startswith(
            f"file is a file, and the data directory {folder} has to be a folder: choose another"
        )


def test_an_address_of_another_machine_is_told(serve: Serve) -> None:
    """An address of another machine and an unknown host name are errors. 192.0.2.0/24 (RFC 5737) and .invalid are
    reserved for documentation and tests."""
    sentence = last_words(serve("--listen", "192.0.2.1:0", "--data-dir", "data"))
    assert sentence.startswith("192.0.2.1 is not an address of this machine, so no broker can listen at 192.0.2.1:0")
    sentence = last_words(serve("--listen", "nowhere.invalid:0", "--data-dir", "data"))
    assert sentence.startswith("the host name of nowhere.invalid:0 is not known here (")


def test_a_full_disk_is_told(serve: Serve, tmp_path: Path) -> None:
    """A full disk ends the broker with one line. tests/faults/test_full_disk.py tests which files can't be written."""
    if why_not() is not None:
        pytest.skip(str(why_not()))
    disk = FaultyDisk(tmp_path, tmp_path / "disk")
    disk.fail_writes(errno.ENOSPC)
    served = serve(*FREE_PORT, "--data-dir", "disk/data", environment=disk.environment)
    assert last_words(served) == (
        "no space is left on the disk of disk/data: make room there, or choose another folder (--data-dir, log.dirs)"
    )


def test_the_environment_goes_before_the_file_and_flags_before_both(serve: Serve, tmp_path: Path) -> None:
    """--config reads Kafka's server.properties; KLAMM_... variables override the file, and -X overrides both."""
    file = tmp_path / "server.properties"
    file.write_text(
        "listeners=PLAINTEXT://127.0.0.1:0\nlog.dirs=from-file\nnum.partitions=2\n"
        "log.retention.hours=2\nfetch.max.bytes=2000\n",
        encoding="utf-8",
    )
    environment = {"KLAMM_LOG_RETENTION_HOURS": "3", "KLAMM_FETCH_MAX_BYTES": "3000"}
    broker = serve("--config", str(file), "-X", "fetch.max.bytes=4000", environment=environment)
    address = broker.ready()
    assert _setting(address, "num.partitions") == "2"
    assert _setting(address, "log.retention.hours") == "3"
    assert _setting(address, "fetch.max.bytes") == "4000"
    assert (tmp_path / "from-file").is_dir()
    assert broker.stop()[0] == 0


def test_listen_keeps_the_advertised_address_of_the_file(serve: Serve, tmp_path: Path) -> None:
    """As in Kafka, --listen overrides `listeners` only: clients get the address that the file advertises."""
    file = tmp_path / "server.properties"
    file.write_text(
        "listeners=PLAINTEXT://:9092\nadvertised.listeners=PLAINTEXT://broker.example.com:19092\n", encoding="utf-8"
    )
    broker = serve(*FREE_PORT, "--config", str(file))
    with Wire(broker.ready()) as wire:
        (node,) = wire.call(MetadataResponse, 12, MetadataRequest(topics=[])).brokers
    assert (node.host, node.port) == ("broker.example.com", 19092)
    assert broker.stop()[0] == 0


def test_options_go_before_keys(serve: Serve, tmp_path: Path) -> None:
    """--data-dir and --listen override the same keys in -X and in the environment."""
    environment = {"KLAMM_LOG_DIRS": "elsewhere", "KLAMM_LISTENERS": "PLAINTEXT://127.0.0.1:1"}
    broker = serve(*FREE_PORT, "--data-dir", "here", "-X", "log.dirs=there", environment=environment)
    broker.ready()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here"]
    assert broker.stop()[0] == 0


def test_the_test_profile_does_not_wait_for_members(serve: Serve) -> None:
    """By default the broker waits three seconds for a group's first members, as Kafka does; with the test profile it
    does not wait."""
    delays = {}
    for profile in ("default", "test"):
        broker = serve(*FREE_PORT, "--data-dir", profile, "--profile", profile)
        delays[profile] = _setting(broker.ready(), "group.initial.rebalance.delay.ms")
        assert broker.stop()[0] == 0
    assert delays == {"default": "3000", "test": "0"}


def test_it_listens_on_ipv6(serve: Serve) -> None:
    """An IPv6 address is written in brackets, on the command line and in the ready line."""
    if not _has_ipv6():
        pytest.skip("this machine has no IPv6 loopback address")
    broker = serve("--listen", "[::1]:0")
    address = broker.ready()
    assert address.startswith("[::1]:")
    assert _setting(address, "node.id") == "1"
    assert broker.stop()[0] == 0


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--listen", "9092"), "argument --listen: takes HOST:PORT, not '9092'"),
        (("--listen", "localhost:90920"), "argument --listen: takes a port from 0 to 65535, not 90920"),
        (
            ("-X", "listeners=PLAINTEXT://localhost:90920"),
            "listeners: 'PLAINTEXT://localhost:90920' has port 90920; ports are from 0, any free one, to 65535",
        ),
        (("-X", "num.partitions"), "argument -X: takes KEY=VALUE, not 'num.partitions'"),
        (("-X", "num.partitions=none"), "num.partitions=none (-X): Not a number of type INT"),
        (("-X", "num.partitions=0"), "num.partitions=0 (-X): Value must be at least 1"),
        (("-X", "listeners=SSL://127.0.0.1:0"), "klamm serve: "),
        (("--config", "missing.properties"), "can't read missing.properties: No such file or directory"),
        (("--profile", "fast"), "invalid choice: 'fast'"),
        (("now",), "unrecognized arguments: now"),
    ],
)
def test_wrong_use_is_told(serve: Serve, tmp_path: Path, words: tuple[str, ...], complaint: str) -> None:
    """An invalid configuration exits with status 2 and creates no file."""
    status, stdout, stderr = serve(*words).ended()
    assert (status, stdout) == (2, "")
    assert complaint in stderr
    assert list(tmp_path.iterdir()) == []


def test_a_file_tells_the_line_that_is_wrong(serve: Serve, tmp_path: Path) -> None:
    """The error for a wrong value in a file names the line."""
    (tmp_path / "server.properties").write_text("node.id=1\nnum.partitions=many\n", encoding="utf-8")
    status, _, stderr = serve("--config", "server.properties").ended()
    assert status == 2
    assert "num.partitions=many (server.properties, line 2)" in stderr


def test_no_client_is_loaded_to_serve() -> None:
    """Starting a broker does not load librdkafka."""
    code = (
        "import sys, argparse, klamm.cli.serve as serve; serve.configure(argparse.ArgumentParser())\n"
        "sys.exit(any(name.partition('.')[0] in ('confluent_kafka', 'rich', 'pyspark') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
