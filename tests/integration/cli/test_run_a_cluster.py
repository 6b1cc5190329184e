"""The page "Run a cluster", as a reader does it: three machines are three addresses of this one."""

from __future__ import annotations

import random
import re
import shlex
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from tests.support.etcd_programs import etcd_program
from tests.support.etcd_users import authenticate_users
from tests.support.page_code import page_blocks
from tests.support.patience import Limit
from tests.support.share_of_gate import is_in_share_of_gate
from tests.support.toolchains import toolchain_is_missing

from klamm.cli.main import main
from klamm.metadata.etcd.etcd_address import EtcdAddress
from klamm.metadata.etcd.etcd_client import EtcdClient, Method

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all addresses of 127.0.0.0/8"),
    pytest.mark.skipif(
        not is_in_share_of_gate("run a cluster", 6), reason="the gate runs it for a sixth of the commits"
    ),
]

PAGE: Final = "how-to/run-a-cluster.md"
TEXT: Final = (Path(__file__).parents[3] / "docs" / PAGE).read_text(encoding="utf-8")
MACHINES: Final = (1, 2, 3)
_MEMORY: Final = Path("/dev/shm")
_PATIENCE_S: Final = 60.0


class Machines:
    """The page's cluster: its files in `folder`, its addresses on the loopback interface."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        # Several runs of the tests may share this machine, and the page's ports are fixed.
        self._network = f"127.{random.randint(1, 254)}.{random.randint(1, 254)}."
        self._etcd, self._broker = page_blocks(PAGE, "ini")
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self.certificates = folder / "certificates"
        self.certificates.mkdir()
        store = tempfile.mkdtemp(prefix="etcd-", dir=_MEMORY if _MEMORY.is_dir() else folder)
        stack.callback(shutil.rmtree, store)
        self._store = Path(store)

    def address(self, machine: int, port: int) -> str:
        """Returns an address of a machine."""
        return f"{self._network}{machine}:{port}"

    def make_certificates(self) -> None:
        """Runs the commands of the page."""
        if shutil.which("openssl") is None:
            toolchain_is_missing("openssl", "install openssl to test TLS")
        # From an address of the loopback interface, connections come from 127.0.0.1.
        commands = re.sub(r"(IP:[\d.]+)", r"\1,IP:127.0.0.1", page_blocks(PAGE, "sh")[0])
        made = subprocess.run(
            ["sh", "-e", "-c", self._on(commands)], cwd=self.certificates, capture_output=True, text=True, check=False
        )
        assert made.returncode == 0, made.stderr

    def start_etcd(self, machine: int) -> None:
        """Starts the page's service, without syncs to the disk."""
        words = self._command(self._etcd, machine)
        self._start(f"etcd-{machine}", [str(etcd_program()), *words[1:], "--unsafe-no-fsync"])

    def authenticate(self) -> None:
        """Does what the page does with etcdctl."""
        url = self._on(f"etcds://10.0.0.1:2379/orders?ca={self.certificates}/ca.pem")
        url += f"&cert={self.certificates}/klamm.pem&key={self.certificates}/klamm.key"
        client = EtcdClient(EtcdAddress.parse(url))
        self._stack.callback(client.close)
        client.connect(_PATIENCE_S)

        def call(method: Method[Any, Any], request: Any) -> Any:
            return client.call(method, request, _PATIENCE_S)

        authenticate_users(call, "klamm", "secret", prefix="orders")
        (self.certificates / "password").write_text("secret\n", encoding="utf-8")

    def start_broker(self, machine: int) -> None:
        """Starts the page's service with the page's configuration."""
        folder = self._folder / str(machine)
        folder.mkdir()
        (properties,) = page_blocks(PAGE, "properties")
        for name in ("node.id=1", "broker.rack=rack-1"):
            properties = properties.replace(name, f"{name[:-1]}{machine}")
        properties = properties.replace("/var/lib/klamm", str(folder / "data"))
        (folder / "server.properties").write_text(self._on(properties, machine), encoding="utf-8")
        words = self._command(self._broker, machine)
        config = words.index("--config") + 1
        words[config] = str(folder / "server.properties")
        self._start(f"klamm-{machine}", [sys.executable, "-m", "klamm.cli", *words[1:]])

    def wait_until_ready(self, machine: int) -> None:
        """Waits until both listeners of the broker serve."""
        limit = Limit(_PATIENCE_S)
        while len(re.findall(r"^ready ", log := self.log(f"klamm-{machine}"), re.MULTILINE)) < 2:
            assert not limit.is_over, log
            assert self.processes[f"klamm-{machine}"].poll() is None, log
            time.sleep(0.1)

    def end(self, name: str) -> None:
        """Kills a process."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def log(self, name: str) -> str:
        """Returns what a process has printed."""
        return (self._folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def _on(self, text: str, machine: int = 1) -> str:
        """Returns a text of the page for a machine: the first one stands for all in the page's files."""
        return text.replace("10.0.0.1:", f"10.0.0.{machine}:").replace("10.0.0.", self._network)

    def _command(self, unit: str, machine: int) -> list[str]:
        """Returns the command of a service on a machine, as the page says that it differs from the first one's."""
        (line,) = re.findall(r"^ExecStart=(.*)", re.sub(r" *\\\n *", " ", unit), re.MULTILINE)
        words = []
        for word in shlex.split(line):
            is_the_same_everywhere = word.startswith(("--initial-cluster=", "etcds://"))
            own = word if is_the_same_everywhere else word.replace("etcd-1", f"etcd-{machine}")
            own = self._on(own, 1 if is_the_same_everywhere else machine)
            own = own.replace("/var/lib/etcd", str(self._store / str(machine)))
            words.append(re.sub(r"/etc/(etcd|klamm)/", f"{self.certificates}/", own))
        return words

    def _start(self, name: str, command: list[str]) -> None:
        with (self._folder / f"{name}.log").open("w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, text=True, cwd=self._folder, process_group=0)
        self.processes[name] = process
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    """Returns the machines of the page, on which nothing runs."""
    with ExitStack() as stack:
        yield Machines(tmp_path, stack)


def _metrics(machines: Machines, machine: int) -> str:
    with urllib.request.urlopen(f"http://{machines.address(machine, 9404)}/metrics", timeout=_PATIENCE_S) as page:
        return str(page.read().decode())


def _metrics_of_etcd(machines: Machines) -> str:
    context = ssl.create_default_context(cafile=str(machines.certificates / "ca.pem"))
    context.load_cert_chain(machines.certificates / "klamm.pem", machines.certificates / "klamm.key")
    url = f"https://{machines.address(1, 2379)}/metrics"
    with urllib.request.urlopen(url, timeout=_PATIENCE_S, context=context) as page:
        return str(page.read().decode())


def _wait_for_brokers(server: str) -> None:
    """Waits until a broker knows all brokers of the cluster: it hears of the last one a little later."""
    admin = AdminClient({"bootstrap.servers": server, "log_level": 0})
    limit = Limit(_PATIENCE_S)
    while (found := admin.list_topics(timeout=_PATIENCE_S).brokers.keys()) != set(MACHINES):
        assert not limit.is_over, found


def _replicas(admin: AdminClient) -> set[tuple[int, ...]]:
    topic = admin.list_topics("orders", timeout=_PATIENCE_S).topics["orders"]
    return {tuple(sorted(each.replicas)) for each in topic.partitions.values()}


def test_the_cluster_of_the_page(
    machines: Machines, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """etcd with TLS and users, and brokers with two listeners and racks, start with the page's files. A topic is on all
    racks. The metrics of the page exist. When a machine is lost, records are acknowledged all the same."""
    machines.make_certificates()
    for machine in MACHINES:
        machines.start_etcd(machine)
    machines.authenticate()
    for machine in MACHINES:
        machines.start_broker(machine)
    for machine in MACHINES:
        machines.wait_until_ready(machine)
    servers = ",".join(machines.address(machine, 9092) for machine in MACHINES)
    monkeypatch.setenv("KLAMM_BOOTSTRAP_SERVER", servers)

    for server in servers.split(","):
        _wait_for_brokers(server)
    (create,) = re.findall(r"^klamm (topic create .*)$", TEXT, re.MULTILINE)
    assert main(create.split()) == 0
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    limit = Limit(_PATIENCE_S)
    while (found := _replicas(admin)) != {MACHINES}:  # a broker hears of the topic a little later
        assert not limit.is_over, found
    assert main(["cluster", "describe", "-o", "tsv"]) == 0
    described = capsys.readouterr().out
    assert [f"rack-{machine}" in described for machine in MACHINES] == [True] * 3
    assert str(machines.address(1, 9092)).replace(":", "\t") in described

    of_brokers = set(re.findall(r"\b(?:kafka|klamm)_[a-z_]+\b", TEXT))
    shown = "".join(_metrics(machines, machine) for machine in MACHINES)
    missing = {name for name in of_brokers if not re.search(rf"^# HELP {name} ", shown, re.MULTILINE)}
    assert not missing
    of_etcd = set(re.findall(r"\betcd_[a-z_]+\b", TEXT))
    shown = _metrics_of_etcd(machines)
    assert not {name for name in of_etcd if f"# HELP {name} " not in shown}

    machines.end("etcd-1")
    machines.end("klamm-1")
    producer = Producer({"bootstrap.servers": servers, "acks": "all", "log_level": 0})
    errors: list[Any] = []
    for number in range(120):
        producer.produce("orders", str(number), on_delivery=lambda error, _: errors.append(error))
    limit.progressed()
    while producer.flush(1.0):
        assert not limit.is_over, machines.log("klamm-2")
    assert errors == [None] * 120
    assert all(process.poll() is None for process in machines.processes.values())
