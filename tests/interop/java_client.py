"""Runs Apache Kafka's Java clients in their own JVM (java/Client.java is the driver)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Final

from tests.interop.client_process import ClientProcess
from tests.support.short_lived_java import prepared, start_command

__all__ = ["JavaClient", "compile_client", "driver_command"]

_JAR: Final = "drivers.jar"


def compile_client(classpath: str) -> str:
    """Compiles java/*.java once for all test runs, and returns the class path for the clients."""
    sources = sorted((Path(__file__).parent / "java").glob("*.java"))

    def compile_into(target: Path) -> None:
        classes, jar = target / "classes", target / _JAR
        for command in (
            ["javac", "-proc:none", "-d", str(classes), "-cp", classpath, *map(str, sources)],
            ["jar", "--create", "--file", str(jar), "-C", str(classes), "."],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr

    folder = prepared("drivers", [classpath, *(path.read_bytes() for path in sources)], compile_into)
    return f"{classpath}:{folder / _JAR}"


def _train(java: list[str]) -> None:
    """Makes a JVM load the classes that clients load before they have found their broker."""
    operations = [
        {"do": "join", "name": "nobody", "topic": "nothing", "config": {"group.id": "nobodies"}},
        {"do": "produce", "topic": "nothing", "records": [{"value": "none"}], "config": {"max.block.ms": "1000"}},
    ]
    lines = "".join(json.dumps(operation) + "\n" for operation in operations)
    subprocess.run(
        [*java, "Client", "127.0.0.1:1"], input=lines, text=True, capture_output=True, timeout=60, check=True
    )


def driver_command(classpath: str, name: str, *arguments: str) -> list[str]:
    """Returns the command that starts the driver of this name."""
    return [*start_command(classpath, "-Xmx256m", name="client", train=_train), name, *arguments]


class JavaClient(ClientProcess):
    """A JVM process with Java clients, which also performs the operations of java/AdminOperations.java."""

    def __init__(self, classpath: str, bootstrap: str) -> None:
        super().__init__(driver_command(classpath, "Client", bootstrap))
