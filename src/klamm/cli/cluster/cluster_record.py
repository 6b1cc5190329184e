"""The record of a cluster on this machine: its members, their ports and their processes, in DIR/cluster.json.

Ports are chosen once, so that addresses stay the same over restarts. A process is recorded with its start time, so that
another process with the same id is never taken for a member.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

from klamm.cli.cluster.member_process import ProcessIdentity
from klamm.errors import KlammError

__all__ = [
    "HOST",
    "ClusterProblem",
    "ClusterRecord",
    "Member",
    "existing_record",
    "locked",
    "read_record",
    "write_record",
]

HOST: Final = "127.0.0.1"
"""The address of all members: there is no authentication, so other machines must not reach them."""
_FILE: Final = "cluster.json"
_VERSION: Final = 1


class ClusterProblem(KlammError):
    """A cluster on this machine can't be started, stopped or looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A broker, or the etcd of its cluster. Its data and its log are in DIR/<name> and DIR/<name>.log."""

    name: str
    port: int
    """The port for clients."""
    peer_port: int | None = None
    """etcd's port for other members of etcd. It opens one even if it is the only member."""
    broker_id: int | None = None
    """None for etcd."""
    process: ProcessIdentity | None = None
    """The last process that was started; it may have ended. None after a stop."""

    @property
    def address(self) -> str:
        """The address for clients, as HOST:PORT."""
        return f"{HOST}:{self.port}"

    @property
    def is_running(self) -> bool:
        """Whether the recorded process runs now."""
        return self.process is not None and self.process.is_running

    def data_directory(self, directory: Path) -> Path:
        """Returns where the member stores its data."""
        return directory / self.name

    def log_file(self, directory: Path) -> Path:
        """Returns where the member's output goes."""
        return directory / f"{self.name}.log"

    @classmethod
    def etcd(cls, port: int, peer_port: int) -> Self:
        """Returns the member that stores the metadata."""
        return cls(name="etcd", port=port, peer_port=peer_port)

    @classmethod
    def broker(cls, broker_id: int, port: int) -> Self:
        """Returns a broker."""
        return cls(name=f"broker-{broker_id}", port=port, broker_id=broker_id)


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """The members of one cluster, and what was chosen for all of them."""

    replication_factor: int
    etcd: Member
    brokers: tuple[Member, ...]
    """In the order of their ids, which begin with 1."""

    @property
    def members(self) -> tuple[Member, ...]:
        """etcd, then the brokers."""
        return (self.etcd, *self.brokers)

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, as clients take them."""
        return ",".join(broker.address for broker in self.brokers)

    def with_process(self, name: str, process: ProcessIdentity | None) -> ClusterRecord:
        """Returns the record after the member of that name was started, or stopped (None)."""
        etcd, *brokers = (
            replace(member, process=process) if member.name == name else member for member in self.members
        )
        return replace(self, etcd=etcd, brokers=tuple(brokers))


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keeps other commands from the cluster meanwhile. Raises ClusterProblem if one works on it now, and OSError.

    The processes that are started inside do not hold the lock: it ends with this process at the latest.
    """
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ClusterProblem(f"another command starts or stops the cluster in {directory} now") from None
        yield
    finally:
        os.close(folder)


def existing_record(directory: Path) -> ClusterRecord:
    """Returns the record. Raises ClusterProblem if there is no cluster, and as `read_record`."""
    record = read_record(directory)
    if record is None:
        raise ClusterProblem(
            f"there is no cluster in {directory}: --data-dir names another, `klamm cluster start` makes one"
        )
    return record


def read_record(directory: Path) -> ClusterRecord | None:
    """Returns the record; None if there is none. Raises OSError, and ClusterProblem for a file that is damaged."""
    path = directory / _FILE
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        return _record(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ClusterProblem(
            f"{path} is damaged ({error!r}): end the processes of the cluster and remove the file; "
            "the next start chooses other ports and keeps the data"
        ) from None


def write_record(directory: Path, record: ClusterRecord | None) -> None:
    """Replaces the file as a whole, or removes it (None), so that a reader never sees a part. Raises OSError."""
    path = directory / _FILE
    if record is None:
        path.unlink(missing_ok=True)
        return
    temporary = path.with_suffix(".tmp")
    with temporary.open("w", encoding="utf-8") as stream:
        json.dump({"version": _VERSION, **asdict(record)}, stream, indent=2)
        stream.write("\n")
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(temporary, path)


def _record(values: dict[str, Any]) -> ClusterRecord:
    if values["version"] != _VERSION:
        raise ValueError(f"version {values['version']} instead of {_VERSION}")
    brokers = tuple(_member(each) for each in values["brokers"])
    if [broker.broker_id for broker in brokers] != [*range(1, len(brokers) + 1)]:
        raise ValueError("the ids of the brokers are not 1, 2 and so on")
    return ClusterRecord(int(values["replication_factor"]), _member(values["etcd"]), brokers)


def _member(values: dict[str, Any]) -> Member:
    process = values["process"]
    identity = None if process is None else ProcessIdentity(pid=int(process["pid"]), start=str(process["start"]))
    return Member(**{**values, "process": identity})
