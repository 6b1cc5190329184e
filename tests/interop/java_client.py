"""Apache Kafka's Java clients in a JVM of their own, driven by the tests (java/Client.java is the other end)."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["JavaClient", "JavaError", "JavaMember", "compile_client"]

_PATIENCE_SECONDS = 60


def compile_client(classpath: str, target: Path) -> str:
    """Compiles java/*.java into `target`; returns the class path to run it with."""
    sources = sorted(str(path) for path in (Path(__file__).parent / "java").glob("*.java"))
    command = ["javac", "-proc:none", "-d", str(target), "-cp", classpath, *sources]
    compiled = subprocess.run(command, capture_output=True, text=True, check=False)
    assert compiled.returncode == 0, compiled.stderr
    return f"{target}:{classpath}"


class JavaError(Exception):
    """A Java client threw; `name` is the exception's class without its package."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name


class JavaMember:
    """What the tests know of a group member: its events, in order."""

    def __init__(self, client: JavaClient, name: str) -> None:
        self._client = client
        self.name = name
        self.events: list[dict[str, Any]] = []

    @property
    def records(self) -> list[dict[str, Any]]:
        """The records it has seen, in order; repeated when it saw them twice."""
        return [event for event in self.events if event["event"] == "record"]

    @property
    def places(self) -> set[tuple[int, int]]:
        """Partition and offset of every record it has seen."""
        return {(record["partition"], record["offset"]) for record in self.records}

    @property
    def assignment(self) -> list[int] | None:
        """The partitions it owned last, or None before its first assignment."""
        for event in reversed(self.events):
            if event["event"] == "assigned":
                partitions: list[int] = event["partitions"]
                return partitions
            if event["event"] == "lost":
                return []
        return None

    def names(self) -> list[str]:
        """The events without the records, by name."""
        return [event["event"] for event in self.events if event["event"] != "record"]

    def wait_until(self, condition: Callable[[JavaMember], bool], what: str) -> None:
        """Waits until the condition holds. Raises AssertionError, with its events, when it never does."""
        self._client.wait_until(lambda: condition(self), lambda: f"{self.name}: {what}; {self.events[-20:]}")

    def rewind(self) -> None:
        """Has it read its partitions from the beginning again."""
        self._client.call("rewind", name=self.name)

    def commit(self) -> None:
        """Has it commit its position; the event `committed` or `refused` tells how that went."""
        self._client.call("commit", name=self.name)

    def leave(self) -> None:
        """Has it leave the group and end."""
        self._client.call("leave", name=self.name)


class JavaClient:
    """A JVM that performs one operation per `call`, and holds any number of group members."""

    def __init__(self, classpath: str, bootstrap: str) -> None:
        command = ["java", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", classpath, "Client", bootstrap]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._changed = threading.Condition()
        self._answers: list[dict[str, Any]] = []
        self._members: dict[str, JavaMember] = {}
        self._ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def call(self, operation: str, /, **arguments: Any) -> Any:
        """Performs an operation and returns its answer. Raises `JavaError` when the Java client threw."""
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write(json.dumps({"do": operation, **arguments}) + "\n")
        stdin.flush()
        self.wait_until(lambda: bool(self._answers) or self._ended, lambda: f"no answer to {operation}")
        assert self._answers, f"the JVM ended before it answered {operation}"
        answer = self._answers.pop(0)
        if "error" in answer:
            raise JavaError(answer["error"], answer["message"])
        return answer["answer"]

    def join(self, name: str, group: str, topic: str, **config: str) -> JavaMember:
        """Starts a member of `group` that reads `topic`; underscores in config names stand for dots."""
        member = self._members[name] = JavaMember(self, name)
        settings = {"group.id": group, "client.id": name, "auto.offset.reset": "earliest"}
        settings.update({key.replace("_", "."): value for key, value in config.items()})
        self.call("join", name=name, topic=topic, config=settings)
        return member

    def wait_until(self, condition: Callable[[], bool], otherwise: Callable[[], str]) -> None:
        """Waits until the condition holds, looking at it whenever a line has come from the JVM."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        with self._changed:
            while not condition():
                remaining = deadline - time.monotonic()
                assert remaining > 0, otherwise()
                self._changed.wait(min(remaining, 0.5))

    def pause(self) -> None:
        """Stops the JVM where it stands (SIGSTOP); nothing in it runs, connections stay open."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Lets a paused JVM run again."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Ends the JVM with SIGKILL: nobody leaves a group, nothing is committed."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Ends the JVM, in whatever state it is, and the thread that listens to it."""
        self.kill()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

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
