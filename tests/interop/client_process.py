"""Runs a Kafka client in its own process, which the tests control; each client has one driver at the other end.

A driver reads operations from standard input, one JSON object per line, named by the key "do". It answers each
operation with one line, {"answer": ...} or {"error": name, "message": ...}. Settings have the names of Kafka's Java
client; a driver translates them. Between the answers, a driver writes the events of its group members as {"member":
name, "event": ..., ...}:

- `assigned` with all partitions that the member owns now, `revoked` and `lost` with the partitions that it lost
- `record` with partition, offset, timestamp, key, value and headers
- `committed`, or `refused` with the error, after a commit that was asked for
- `left`, or `failed` with the error, when the member has ended
"""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["ClientError", "ClientProcess", "Member"]

_PATIENCE_SECONDS = 60


class ClientError(Exception):
    """An exception that a client raised; `name` is the client's name of the exception, without its package."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name


class Member:
    """A group member as the tests see it: its events, in order."""

    def __init__(self, client: ClientProcess, name: str) -> None:
        self._client = client
        self.name = name
        self.events: list[dict[str, Any]] = []

    @property
    def records(self) -> list[dict[str, Any]]:
        """The records that the member has read, in order; a record that the member read twice is there twice."""
        return [event for event in self.events if event["event"] == "record"]

    @property
    def places(self) -> set[tuple[int, int]]:
        """Partition and offset of every record that the member has read."""
        return {(record["partition"], record["offset"]) for record in self.records}

    @property
    def assignment(self) -> list[int] | None:
        """The partitions that the member owns according to its last events, or None before its first assignment."""
        gone: set[int] = set()
        for event in reversed(self.events):
            if event["event"] == "assigned":
                return [partition for partition in event["partitions"] if partition not in gone]
            if event["event"] == "lost":
                return []
            if event["event"] == "revoked":
                gone.update(event["partitions"])
        return None

    def names(self) -> list[str]:
        """Returns the names of the events, without the records."""
        return [event["event"] for event in self.events if event["event"] != "record"]

    def wait_until(self, condition: Callable[[Member], bool], what: str) -> None:
        """Waits until the condition holds. Raises AssertionError with the member's events after a minute."""
        self._client.wait_until(lambda: condition(self), lambda: f"{self.name}: {what}; {self._story()}")

    def rewind(self) -> None:
        """Makes the member read its partitions from the beginning again."""
        self._client.call("rewind", name=self.name)

    def commit(self) -> None:
        """Makes the member commit its position; the event `committed` or `refused` tells the result."""
        self._client.call("commit", name=self.name)

    def leave(self) -> None:
        """Makes the member leave the group and end."""
        self._client.call("leave", name=self.name)

    def _story(self) -> str:
        others = [event for event in self.events if event["event"] != "record"]
        return f"{len(self.records)} records, {others[-20:]}"


class ClientProcess:
    """A process that performs one operation per `call`, and runs any number of group members.

    `command` starts its driver. If `errors` is a file, it receives the standard error of the driver.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        errors: Path | None = None,
    ) -> None:
        self._errors = errors
        error_stream = errors.open("w", encoding="utf-8") if errors is not None else subprocess.DEVNULL
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=error_stream,
            text=True,
            cwd=folder,
            env=environment,
        )
        if not isinstance(error_stream, int):
            error_stream.close()
        self._changed = threading.Condition()
        self._answers: list[dict[str, Any]] = []
        self._members: dict[str, Member] = {}
        self._ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def call(self, operation: str, /, **arguments: Any) -> Any:
        """Performs an operation and returns its answer. Raises `ClientError` when the client raised an exception."""
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write(json.dumps({"do": operation, **arguments}) + "\n")
        stdin.flush()
        self.wait_until(lambda: bool(self._answers) or self._ended, lambda: f"no answer to {operation}")
        assert self._answers, f"the client ended before it answered {operation}{self._complaint()}"
        answer = self._answers.pop(0)
        if "error" in answer:
            raise ClientError(answer["error"], answer["message"])
        return answer["answer"]

    def join(self, name: str, group: str, topic: str, **config: str) -> Member:
        """Starts a member of `group` that reads `topic`; underscores in config names stand for dots."""
        member = self._members[name] = Member(self, name)
        settings = {"group.id": group, "client.id": name, "auto.offset.reset": "earliest"}
        settings.update({key.replace("_", "."): value for key, value in config.items()})
        self.call("join", name=name, topic=topic, config=settings)
        return member

    def wait_until(self, condition: Callable[[], bool], otherwise: Callable[[], str]) -> None:
        """Waits until the condition holds, and checks it whenever the process has written a line."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        with self._changed:
            while not condition():
                remaining = deadline - time.monotonic()
                assert remaining > 0, otherwise() + self._complaint()
                self._changed.wait(min(remaining, 0.5))

    def pause(self) -> None:
        """Stops the process with SIGSTOP; its connections stay open."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Resumes a paused process."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Ends the process with SIGKILL: its members don't leave their groups and commit nothing."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Ends the process in any state, and the thread that reads its output."""
        self.kill()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _complaint(self) -> str:
        text = self._errors.read_text(encoding="utf-8") if self._errors is not None else ""
        return f"\n{text[-8000:]}" if text else ""

    def _read(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            line = json.loads(text)
            with self._changed:
                if "member" in line:
                    self._members[line["member"]].events.append(line)
                else:
                    self._answers.append(line)
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()
