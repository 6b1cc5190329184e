"""The start of a cluster's members: etcd first, then the brokers, each until it serves."""

from __future__ import annotations

import http.client
import subprocess
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from klamm.cli.cluster.cluster_record import HOST, ClusterProblem, ClusterRecord, Member, write_record
from klamm.cli.cluster.free_ports import is_free
from klamm.cli.cluster.member_commands import (
    broker_command,
    check_packages,
    environment_of,
    etcd_command,
    find_etcd,
)
from klamm.cli.cluster.member_end import end_members
from klamm.cli.cluster.member_process import identify, spawn, tail

__all__ = ["MemberStart"]

_LOOK_INTERVAL_S: Final = 0.1
_ANSWER_TIMEOUT_S: Final = 1.0
_UNDO_TIMEOUT_S: Final = 10.0
_SHOWN_LINES: Final = 15


class _Started(NamedTuple):
    """A process that this command has started."""

    process: subprocess.Popen[bytes]
    log_begin: int
    """Where the output of the process begins in the log of its member."""


class MemberStart:
    """One start: it knows which members it has started, so that a failure ends these and no others."""

    def __init__(self, directory: Path, record: ClusterRecord, timeout_s: float) -> None:
        self._directory = directory
        self._record = record
        self._timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s
        self._started: dict[str, _Started] = {}

    def start_missing(self) -> list[str]:
        """Starts the members that do not run. Returns their names when each broker knows all brokers.

        Raises ClusterProblem if a member ends, or is not ready in time, and OSError.
        """
        if all(member.is_running for member in self._record.members):
            return []
        check_packages()
        self._start([self._record.etcd])
        self._wait(self._record.etcd, partial(_is_healthy, self._record.etcd))
        self._start(self._record.brokers)
        ids = {broker.broker_id for broker in self._record.brokers}
        for broker in self._record.brokers:
            client = _client(broker)
            self._wait(broker, partial(_knows, client, ids))
        return list(self._started)

    def undo(self, warn: Callable[[str], None]) -> None:
        """Ends what was started. Raises as `end_members`."""
        started = [member for member in self._record.members if member.name in self._started]
        for members in (
            [member for member in started if member.broker_id is not None],
            [member for member in started if member.broker_id is None],
        ):
            end_members(members, _UNDO_TIMEOUT_S, warn)

    def _start(self, members: Iterable[Member]) -> None:
        for member in members:
            if not member.is_running:
                self._start_one(member)

    def _start_one(self, member: Member) -> None:
        for port in (member.port, member.peer_port):
            if port is not None and not is_free(HOST, port):
                raise ClusterProblem(
                    f"{member.name} can't listen on its port: another program uses {HOST}:{port}. End that program"
                )
        command = (
            etcd_command(find_etcd(), self._record, self._directory)
            if member.broker_id is None
            else broker_command(member, self._record, self._directory)
        )
        log_file = member.log_file(self._directory)
        log_begin = log_file.stat().st_size if log_file.exists() else 0
        process = spawn(command, log_file, environment_of(member))
        self._started[member.name] = _Started(process, log_begin)
        # At once: if this command is killed, `stop` finds the process in the file.
        self._record = self._record.with_process(member.name, identify(process.pid))
        write_record(self._directory, self._record)

    def _wait(self, member: Member, is_ready: Callable[[], bool]) -> None:
        # The process is looked up after the answer, which may be that of another program on the port.
        while not (is_ready() and self._runs(member.name)):
            self._restore(member.name)
            if time.monotonic() >= self._deadline:
                raise self._failure(member.name, f"is not ready after {self._timeout_s:g} s")
            time.sleep(_LOOK_INTERVAL_S)

    def _member(self, name: str) -> Member:
        """Returns the member with its current process."""
        (member,) = (each for each in self._record.members if each.name == name)
        return member

    def _runs(self, name: str) -> bool:
        return self._member(name).is_running

    def _restore(self, name: str) -> None:
        """Starts a member that ran before and has ended meanwhile: without etcd, a broker may have been about to stop.

        Raises ClusterProblem if the process that has ended was started here.
        """
        if self._runs(name):
            return
        if name not in self._started:
            self._start_one(self._member(name))
            return
        status = self._started[name].process.wait()
        raise self._failure(name, f"ended with status {status}" if status >= 0 else f"was ended by signal {-status}")

    def _failure(self, name: str, what: str) -> ClusterProblem:
        log_file = self._directory / f"{name}.log"
        begin = self._started[name].log_begin if name in self._started else 0
        lines = tail(log_file, begin, _SHOWN_LINES)
        return ClusterProblem(f"{name} {what}. The end of {log_file}:\n{lines or '(nothing)'}")


def _is_healthy(etcd: Member) -> bool:
    """Returns whether etcd has a leader and takes requests."""
    connection = http.client.HTTPConnection(HOST, etcd.port, timeout=_ANSWER_TIMEOUT_S)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _client(broker: Member) -> AdminClient:
    """Returns a client that asks this broker first, and others only after its first answer."""
    config: dict[str, Any] = {
        "bootstrap.servers": broker.address,
        "client.id": "klamm",
        "log_level": 2,  # no output while the broker does not listen yet
        "error_cb": lambda _: None,
        "reconnect.backoff.max.ms": 200,
    }
    return AdminClient(config)


def _knows(client: AdminClient, ids: set[int | None]) -> bool:
    """Returns whether a broker answers that the cluster has brokers with all these ids."""
    try:
        return ids <= client.list_topics(timeout=_ANSWER_TIMEOUT_S).brokers.keys()
    except KafkaException:
        return False
