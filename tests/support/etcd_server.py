"""Runs etcd for tests: one member or three, each a process that can be killed, paused and restarted."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

import grpc
from google.protobuf.message import Message
from tests.support.etcd_programs import etcd_program
from tests.support.ports import free_port

from klamm.metadata.etcd.etcd_address import EtcdAddress
from klamm.metadata.etcd.etcd_client import EtcdClient, Method
from klamm.metadata.etcd.etcd_errors import EtcdCallFailed, EtcdUnavailable
from klamm.metadata.etcd.generated import etcd_messages_pb2 as messages

__all__ = ["COMPACT", "PUT", "Etcd", "EtcdMember"]

COMPACT: Final = Method("/etcdserverpb.KV/Compact", messages.CompactionResponse, messages.CompactionRequest)
PUT: Final = Method("/etcdserverpb.KV/Put", messages.PutResponse, messages.PutRequest, True)
_RANGE: Final = Method("/etcdserverpb.KV/Range", messages.RangeResponse, messages.RangeRequest)
_STATUS: Final = Method("/etcdserverpb.Maintenance/Status", messages.StatusResponse, messages.StatusRequest)
_MEMORY: Final = Path("/dev/shm")
"""A disk that other tests write to can make a member wait for seconds, longer than a broker waits for an answer."""
_START_S: Final = 60.0
_STOP_S: Final = 20.0

Request = TypeVar("Request", bound=Message)
Answer = TypeVar("Answer", bound=Message)


class EtcdMember:
    """One process, with a data directory that outlives it."""

    def __init__(self, folder: Path, name: str, program: Path, options: Sequence[str], scheme: str) -> None:
        self.name = name
        self.port = free_port()
        self.peer_port = free_port()
        self.folder = folder / name
        self.log_file = folder / f"{name}.log"
        self._program = program
        self._options = options
        self._scheme = scheme
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def peer_url(self) -> str:
        return f"http://127.0.0.1:{self.peer_port}"

    @property
    def is_running(self) -> bool:
        """Whether the process is running."""
        return self._process is not None and self._process.poll() is None

    def start(self, cluster: str) -> None:
        """Starts the process and does not wait for it."""
        client_url = f"{self._scheme}://{self.endpoint}"
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    str(self._program),
                    f"--name={self.name}",
                    f"--data-dir={self.folder}",
                    f"--listen-client-urls={client_url}",
                    f"--advertise-client-urls={client_url}",
                    f"--listen-peer-urls={self.peer_url}",
                    f"--initial-advertise-peer-urls={self.peer_url}",
                    f"--initial-cluster={cluster}",
                    "--heartbeat-interval=100",
                    "--election-timeout=1000",
                    "--unsafe-no-fsync",
                    *self._options,
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C goes to the tests, which stop their brokers first.
                process_group=0,
            )

    def stop(self) -> None:
        """Stops the process cleanly."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kills the process."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Stops the process with SIGSTOP: its connections stay, and it answers nothing."""
        self._send(signal.SIGSTOP)

    def resume(self) -> None:
        """Continues a paused process."""
        self._send(signal.SIGCONT)

    def _send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


class Etcd:
    """One etcd of one member or more, from `with` to its end."""

    def __init__(
        self,
        folder: Path,
        members: int = 1,
        *,
        program: Path | None = None,
        options: Sequence[str] = (),
        url_query: str = "",
        is_encrypted: bool = False,
        is_synced: bool = False,
    ) -> None:
        """Skips the test without a program. `options`: additional options of all members.

        `url_query`: what `url` has after the question mark. `is_synced`: the data is in `folder` instead of memory, and
        members sync it.
        """
        self._scheme = "etcds" if is_encrypted else "etcd"
        self._query = f"?{url_query}" if url_query else ""
        folder.mkdir(parents=True, exist_ok=True)
        program = program or etcd_program()
        if is_synced:
            options = [*options, "--unsafe-no-fsync=false"]
        parent = _MEMORY if _MEMORY.is_dir() and not is_synced else folder
        self._data_folder = Path(tempfile.mkdtemp(prefix="etcd-", dir=parent))
        self.members = [
            EtcdMember(self._data_folder, f"m{number}", program, options, "https" if is_encrypted else "http")
            for number in range(1, members + 1)
        ]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for member in self.members:
            member.kill()
        shutil.rmtree(self._data_folder)

    def url(self, prefix: str = "test", user: str = "") -> str:
        """Returns the URL of a metadata store."""
        endpoints = ",".join(member.endpoint for member in self.members)
        return f"{self._scheme}://{user}{endpoints}/{prefix}{self._query}"

    def address(self, prefix: str = "test") -> EtcdAddress:
        """Returns the parsed URL."""
        return EtcdAddress.parse(self.url(prefix))

    def start(self) -> None:
        """Starts all members and waits for a leader."""
        for member in self.members:
            self.launch(member)
        self.wait()

    def launch(self, member: EtcdMember) -> None:
        """Starts one member and does not wait for it."""
        member.start(",".join(f"{each.name}={each.peer_url}" for each in self.members))

    def wait(self) -> None:
        """Waits until a member has a leader."""
        client = EtcdClient(self.address())
        try:
            client.connect(_START_S)
        except EtcdUnavailable as error:
            logs = "\n".join(member.log_file.read_text(errors="replace")[-2000:] for member in self.members)
            raise AssertionError(f"etcd does not start: {error}\n{logs}") from error
        finally:
            client.close()

    def restart(self) -> None:
        """Kills the only member and starts it again."""
        (member,) = self.members
        member.kill()
        self.start()

    def call(self, method: Method[Request, Answer], request: Request) -> Answer:
        """Makes one call as a client of its own."""
        client = EtcdClient(self.address())
        try:
            client.connect(_START_S)
            return client.call(method, request)
        finally:
            client.close()

    def put(self, key: str, value: bytes = b"") -> int:
        """Writes a key, next to any store, and returns the revision."""
        return self.call(PUT, messages.PutRequest(key=key.encode(), value=value)).header.revision

    def compact(self) -> None:
        """Compacts all revisions up to the current one."""
        revision = self.put("compaction")
        self.call(COMPACT, messages.CompactionRequest(revision=revision, physical=True))

    def fill_quota(self) -> None:
        """Writes next to any store until the quota is used up, which raises the alarm NOSPACE."""
        with suppress(EtcdCallFailed):
            for _ in range(1000):
                self.put("filler", bytes(1 << 19))

    def free_quota(self) -> None:
        """Does what an operator of an etcd with one member does after the alarm NOSPACE: compacts, defragments, and
        disarms the alarm."""
        revision = self.call(_RANGE, messages.RangeRequest(key=b"filler")).header.revision
        self.call(COMPACT, messages.CompactionRequest(revision=revision, physical=True))
        member_id = self.call(_STATUS, messages.StatusRequest()).header.member_id
        # These messages are not among the generated ones. AlarmRequest: action DEACTIVATE, the member, alarm NOSPACE.
        with grpc.insecure_channel(self.members[0].endpoint) as channel:
            channel.unary_unary("/etcdserverpb.Maintenance/Defragment")(b"", timeout=_START_S)
            disarm = b"\x08\x02\x10" + _varint(member_id) + b"\x18\x01"
            channel.unary_unary("/etcdserverpb.Maintenance/Alarm")(disarm, timeout=_START_S)

    def leader(self) -> EtcdMember:
        """Returns the member that is the leader."""
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            for member in self.members:
                client = EtcdClient(EtcdAddress(endpoints=(member.endpoint,), prefix="test"))
                try:
                    answer = client.call(_STATUS, messages.StatusRequest(), 2.0)
                except EtcdUnavailable:
                    continue
                finally:
                    client.close()
                if answer.leader == answer.header.member_id:
                    return member
        raise AssertionError("etcd has no leader")

    def copy_data(self, folder: Path) -> None:
        """Copies the data of the only member, which is not running, as a backup does."""
        shutil.copytree(self.members[0].folder, folder)

    def restore_data(self, folder: Path) -> None:
        """Replaces the data of the only member, which is not running."""
        shutil.rmtree(self.members[0].folder)
        shutil.copytree(folder, self.members[0].folder)


def _varint(number: int) -> bytes:
    """Returns a number as protobuf writes it."""
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*written, number])
