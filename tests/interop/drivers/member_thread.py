"""A member of a group in a thread of its own, for clients whose calls block."""

from __future__ import annotations

import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from tests.interop.drivers.lines import Command, tell

__all__ = ["MemberThread", "Members"]


class MemberThread(threading.Thread, ABC):
    """Polls until it is to leave; what it sees it tells. It ends, with the event `failed`, on the first exception."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._requests: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._leaving = False

    def tell(self, event: str, **more: Any) -> None:
        """Tells an event of this member."""
        tell(self.name, event, **more)

    def request(self, action: Callable[[], None]) -> None:
        """Has the member's thread do something between two polls."""
        self._requests.put(action)

    def leave(self) -> None:
        """Returns when the member has left."""

        def stop() -> None:
            self._leaving = True

        self.request(stop)
        self.join()

    def commit(self) -> None:
        """Commits the position and tells how that went."""
        try:
            self.commit_position()
        except Exception as error:
            self.tell("refused", error=str(error))
        else:
            self.tell("committed")

    def run(self) -> None:
        try:
            while not self._leaving:
                for record in self.poll():
                    self.tell("record", **record)
                while not self._requests.empty():
                    self._requests.get()()
            self.close()
        except Exception as error:
            self.tell("failed", error=type(error).__name__, message=str(error))
        else:
            self.tell("left")

    @abstractmethod
    def poll(self) -> Iterable[dict[str, Any]]:
        """The records that have come within a moment."""

    @abstractmethod
    def rewind(self) -> None:
        """Goes back to the beginning of every partition it owns."""

    @abstractmethod
    def commit_position(self) -> None:
        """Commits the position of every partition it owns, or raises."""

    @abstractmethod
    def close(self) -> None:
        """Leaves the group; commits first where that is automatic."""


class Members:
    """The operations on members, for a driver."""

    def __init__(self, new: Callable[[str, str, dict[str, str]], MemberThread]) -> None:
        self._new = new
        self._members: dict[str, MemberThread] = {}

    def join(self, command: Command) -> None:
        """Starts member "name", which subscribes to "topic"."""
        name = command["name"]
        member = self._members[name] = self._new(name, command["topic"], command["config"])
        member.start()

    def leave(self, command: Command) -> None:
        """Has member "name" leave, and waits for it."""
        self._members.pop(command["name"]).leave()

    def rewind(self, command: Command) -> None:
        """Has member "name" read everything again."""
        member = self._members[command["name"]]
        member.request(member.rewind)

    def stall(self, command: Command) -> None:
        """Has member "name" not poll for some "seconds"."""
        self._members[command["name"]].request(lambda: time.sleep(command["seconds"]))

    def commit(self, command: Command) -> None:
        """Has member "name" commit its position."""
        member = self._members[command["name"]]
        member.request(member.commit)
