"""A broker in a thread of this process, for tests and examples.

with Broker() as broker:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from klamm.broker.server import BrokerServer
from klamm.config.broker_config import BrokerConfig
from klamm.errors import KlammError
from klamm.testing.broker_thread import OPEN_FILES, BrokerThread
from klamm.testing.group_control import fence_member, rebalance_group
from klamm.testing.kept_port import KeptPort

__all__ = ["Broker"]

T = TypeVar("T")


class Broker:
    """A real broker on a free port of 127.0.0.1, served by a thread of its own.

    `data_dir`: the data folder; by default a new folder that is removed with the broker. `config`: Kafka's broker keys,
    as text. `profile`: by default `test` (no rebalance delay, frequent heartbeats, one partition for offsets).
    Use it as a context manager, or call `start` and `stop`. It can be started again after a stop, and then continues
    with the same data on the same port.
    """

    def __init__(
        self,
        data_dir: str | Path | None = None,
        *,
        config: Mapping[str, str] | None = None,
        profile: Literal["default", "test"] = "test",
        port: int = 0,
    ) -> None:
        self._given_data_dir = Path(data_dir) if data_dir is not None else None
        self._overrides = dict(config or {})
        self._profile: Literal["default", "test"] = profile
        self._port = KeptPort(port)
        self._own_data_dir: Path | None = None
        self._remove_own_data_dir: Callable[[], object] = _nothing
        self._thread: BrokerThread | None = None

    @property
    def bootstrap_servers(self) -> str:
        """`host:port`, in the form that every Kafka client accepts.

        Raises KlammError when the broker has not been started.
        """
        if self._thread is None:
            raise KlammError("the broker is not running: use `with Broker() as broker:` or call start() first")
        return f"127.0.0.1:{self._port.number}"

    @property
    def data_dir(self) -> Path:
        """The data folder.

        Raises KlammError before the first start if no folder was given.
        """
        directory = self._given_data_dir or self._own_data_dir
        if directory is None:
            raise KlammError("the broker has no data folder yet: call start() first")
        return directory

    def start(self) -> Self:
        """Starts the broker, waits until it accepts requests, and returns it.

        Raises KlammError when it is running already or can't start.
        """
        if self._thread is not None:
            raise KlammError("the broker is running already")
        if self._given_data_dir is None and self._own_data_dir is None:
            self._own_data_dir = Path(tempfile.mkdtemp(prefix="klamm-"))
            self._remove_own_data_dir = weakref.finalize(self, shutil.rmtree, self._own_data_dir, ignore_errors=True)
        self._port.choose()
        listener = f"PLAINTEXT://127.0.0.1:{self._port.number}"
        flags = self._overrides | {"log.dirs": str(self.data_dir), "listeners": listener}
        config = BrokerConfig.load(
            flags=flags, environ={}, file=None, profile=self._profile, flags_name="Broker(config=...)"
        )
        thread = BrokerThread(lambda: BrokerServer(config, open_files=OPEN_FILES), "klamm-broker")
        self._port.number = thread.start()[0][1]
        self._thread = thread
        return self

    def stop(self) -> None:
        """Stops the broker cleanly; does nothing if it is not running.

        Keeps the data for another start. A folder that was not given is removed at the end of the `with` block, or else
        with this object.
        """
        if self._thread is not None:
            self._thread.stop()
            self._thread = None

    def run_in_broker(self, function: Callable[[BrokerServer], Coroutine[Any, Any, T]]) -> T:
        """Runs a coroutine on the broker's own loop and returns its result, for tests of internals."""
        if self._thread is None:
            raise KlammError("the broker is not running")
        return self._thread.run(function)

    def rebalance(self, group: str) -> None:
        """Makes a group rebalance now. Its history says that an administrator asked for it.

        A classic group begins a new generation, unless it is rebalancing already; a group of the consumer protocol gets
        a new epoch and a new target assignment. Returns when the rebalance has begun. Raises KafkaError
        GROUP_ID_NOT_FOUND.
        """
        self.run_in_broker(lambda server: rebalance_group(server, group))

    def fence(self, group: str, member_id: str) -> None:
        """Removes a member from its group as if its session had timed out: its next request is refused.

        Raises KafkaError GROUP_ID_NOT_FOUND or UNKNOWN_MEMBER_ID, and KlammError if the member waits for a rebalance:
        such a member has no session that could time out.
        """
        self.run_in_broker(lambda server: fence_member(server, group, member_id))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
        self._remove_own_data_dir()
        self._own_data_dir = None


def _nothing() -> None:
    """Does nothing: stands for the removal of a folder before there is one."""
