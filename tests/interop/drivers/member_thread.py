"""A group member in its own thread, for clients whose calls block."""

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
    """A thread that polls until the member leaves, and writes the member's events. The first exception ends the thread
    with the event `failed`."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._requests: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._leaving = False

    def tell(self, event: str, **more: Any) -> None:
        """Writes an event of this member."""
        tell(self.name, event, **more)

    def request(self, action: Callable[[], None]) -> None:
        """Makes the member's thread run an action between two polls."""
        self._requests.put(action)

    def leave(self) -> None:
        """Makes the member leave, and waits for the end of its thread."""

        def stop() -> None:
            self._leaving = True

        self.request(stop)
        self.join()

    def commit(self) -> None:
        """Commits the position and writes the result as an event."""
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
        """Returns the records that arrive within a short time."""

    @abstractmethod
    def rewind(self) -> None:
        """Seeks to the beginning of every partition that the member owns."""

    @abstractmethod
    def commit_position(self) -> None:
        """Commits the position of every partition that the member owns. Raises an exception if the commit fails."""

    @abstractmethod
    def close(self) -> None:
        """Leaves the group; commits first if the client commits automatically."""


class Members:
    """The operations on members, for a driver."""

    def __init__(self, new: Callable[[str, str, dict[str, str]], MemberThread]) -> None:
        self._new = new
        self._members: dict[str, MemberThread] = {}
        self._released: dict[str, threading.Event] = {}

    def join(self, command: Command) -> None:
        """Starts member "name", which subscribes to "topic"."""
        name = command["name"]
        member = self._members[name] = self._new(name, command["topic"], command["config"])
        member.start()

    def leave(self, command: Command) -> None:
        """Makes member "name" leave, and waits for it."""
        self._members.pop(command["name"]).leave()

    def rewind(self, command: Command) -> None:
        """Makes member "name" read everything again."""
        member = self._members[command["name"]]
        member.request(member.rewind)

    def stall(self, command: Command) -> None:
        """Makes member "name" pause its polls for some "seconds"."""
        self._members[command["name"]].request(lambda: time.sleep(command["seconds"]))

    def hold(self, command: Command) -> None:
        """Makes member "name" pause its polls until it is released."""
        released = self._released[command["name"]] = threading.Event()

        def wait() -> None:
            released.wait()

        self._members[command["name"]].request(wait)

    def release(self, command: Command) -> None:
        """Lets member "name" poll again after a hold."""
        self._released.pop(command["name"]).set()

    def commit(self, command: Command) -> None:
        """Makes member "name" commit its position."""
        member = self._members[command["name"]]
        member.request(member.commit)
